// gradient_check: is an op what it says? Its gradients against finite differences, in one call.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "trireme/core/device.h"
#include "trireme/graph/graph.h"

namespace trireme {

/// An input of a check: its shape, and the range of values to try it with (uniform). Integer dtypes
/// draw integers in [low, high). Keep the range away from kinks (of relu at 0, of a clamp at its
/// ends): differences over a kink are wrong by about its width over the range, some 1e-3.
struct CheckInput {
  Spec spec;
  double low = -1, high = 1;
  bool parameter = false;
  Place place = Place::whole;  // on the tensor axis; parameters: whole or split
  int split_dim = 0;           // the dim that is split
  bool differentiable = true;  // false: it is data, and no gradient is checked
  CheckInput(Spec s, double l = -1, double h = 1, bool p = false)
      : spec(s), low(l), high(h), parameter(p) {}
};

struct GradientCheckOptions {
  /// Runs the op on so many tensor ranks as well, as threads, with their parts of split inputs, and
  /// compares with one rank.
  int tensor_ranks = 1;
  /// Makes the device of each of them, which runs beside the others: [] { return open_cpu(); }.
  std::function<std::unique_ptr<Device>()> device = {};
  /// Compares with the same in bf16. An op that works in bf16 is compared always.
  bool bf16 = false;
};

/// Largest difference, relative in the 2-norm, that a check admits between outputs or gradients in
/// bf16 and in f32 of the same, bf16-rounded inputs: bf16 rounds each stored element by up to 2^-9
/// of its value, and this is eight such roundings, all in one direction.
inline constexpr double bf16_tolerance = 8 * 0x1p-9;
/// The same between several tensor ranks and one, which sum in another order.
inline constexpr double tensor_axis_tolerance = 1e-5;

/// The worst input of a check, and in it the element that is off most. Converts to `error`.
struct GradientError {
  double error = 0;  // |analytic - numeric| / |numeric| in the 2-norm of that input
  int input = -1;    // -1: nothing is off at all
  Index element = -1;
  double analytic = 0, numeric = 0;          // of that element
  operator double() const { return error; }  // NOLINT(google-explicit-constructor)
};
/// 0.01 (input 0, element 7: 0.35 in backward, 0.36 by finite differences)
std::ostream& operator<<(std::ostream& out, const GradientError& error);

/// The error of the gradients of all differentiable inputs, against fourth-order central
/// differences of a random linear function of the outputs, accumulated in fp64:
/// EXPECT_LT(gradient_check(...), 1e-4). Throws: Error, which names input, element and both values,
/// when a gradient depends on what it must not depend on (the op runs alone, used twice,
/// recomputed, without sharing and packing, and with each input's gradient asked for alone: same
/// bits); when bf16, or several tensor ranks, differ by more than the tolerance; and when infer
/// accepts a shape that is off by one and changes nothing.
GradientError gradient_check(OpPtr op, const std::vector<CheckInput>& inputs, Device& device,
                             const GradientCheckOptions& options = {});
template <class O>
requires std::is_base_of_v<Op, O> GradientError
gradient_check(const O& op, const std::vector<CheckInput>& inputs, Device& device,
               const GradientCheckOptions& options = {}) {
  return gradient_check(OpPtr(std::make_shared<O>(op)), inputs, device, options);
}
/// The same for a subgraph: `build` gets the inputs and returns one value. Shapes off by one are
/// not tried.
GradientError gradient_check(const std::function<Value(Graph&, const Values&)>& build,
                             const std::vector<CheckInput>& inputs, Device& device,
                             const GradientCheckOptions& options = {});

}  // namespace trireme
