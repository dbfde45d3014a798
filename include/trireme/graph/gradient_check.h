// gradient_check: compares the gradients of an op with finite differences, in one call.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <vector>

#include "trireme/core/device.h"
#include "trireme/graph/graph.h"

namespace trireme {

/// An input of a check: its shape, and the range of its random values (uniform). Integer dtypes
/// draw integers in [low, high). Keep the range away from kinks (relu at 0, a clamp at its ends):
/// finite differences across a kink are wrong by about its width divided by the range, some 1e-3.
struct CheckInput {
  Spec spec;
  double low = -1, high = 1;
  bool parameter = false;
  Placement placement = Placement::replicated;  // parameters: replicated or sharded
  int split_dim = 0;                            // the dim that is sharded
  bool differentiable = true;                   // false: it is data, and no gradient is checked
  CheckInput(Spec s, double l = -1, double h = 1, bool p = false)
      : spec(s), low(l), high(h), parameter(p) {}
};

struct GradientCheckOptions {
  /// Also runs the op on this many tensor ranks (threads), each with its part of sharded inputs,
  /// and compares the results with those of one rank.
  int tensor_ranks = 1;
  /// Creates the device of each tensor rank: [] { return open_cpu(); }. They run concurrently.
  std::function<std::unique_ptr<Device>()> device = {};
  /// Also compares with bf16. Always done for an op that works in bf16.
  bool bf16 = false;
};

/// Largest relative difference (2-norm) that a check allows between outputs or gradients computed
/// in bf16 and in f32 from the same bf16-rounded inputs. bf16 rounds each stored element by up to
/// 2^-9 of its value; this allows eight such roundings in the same direction.
inline constexpr double bf16_tolerance = 8 * 0x1p-9;
/// The tolerance between several tensor ranks and one, which sum in different orders.
inline constexpr double tensor_axis_tolerance = 1e-5;

/// The input with the largest error, and its element with the largest error. Converts to `error`.
struct GradientError {
  double error = 0;  // |analytic - numeric| / |numeric| in the 2-norm of that input
  int input = -1;    // -1: no error at all
  Index element = -1;
  double analytic = 0, numeric = 0;          // gradients at that element
  operator double() const { return error; }  // NOLINT(google-explicit-constructor)
};
/// 0.01 (input 0, element 7: 0.35 in backward, 0.36 by finite differences)
std::ostream& operator<<(std::ostream& out, const GradientError& error);

/// Returns the largest gradient error of all differentiable inputs, relative to fourth-order
/// central differences of a random linear function of the outputs, accumulated in fp64:
/// EXPECT_LT(gradient_check(...), 1e-4). Throws an Error with input, element and both values when
/// - a gradient depends on how the op is run: its bits must be the same when the op runs alone, is
///   used twice, is recomputed, runs without sharing and packing, and when each gradient is
///   requested alone;
/// - results in bf16, or on several tensor ranks, differ by more than the tolerance.
/// Throws an Error with the op or the input when
/// - `infer` refuses the inputs, or accepts one that is off by one, and nothing changes;
/// - no op uses an input, or the range of its values is empty;
/// - a split dim does not exist, or does not divide by the number of tensor ranks.
GradientError gradient_check(OpPtr op, const std::vector<CheckInput>& inputs, Device& device,
                             const GradientCheckOptions& options = {});
template <class O>
requires std::is_base_of_v<Op, O> GradientError
gradient_check(const O& op, const std::vector<CheckInput>& inputs, Device& device,
               const GradientCheckOptions& options = {}) {
  return gradient_check(OpPtr(std::make_shared<O>(op)), inputs, device, options);
}
/// Checks a subgraph: `build` gets the inputs and returns one value. Shapes off by one are not
/// tried.
GradientError gradient_check(const std::function<Value(Graph&, const Values&)>& build,
                             const std::vector<CheckInput>& inputs, Device& device,
                             const GradientCheckOptions& options = {});

}  // namespace trireme
