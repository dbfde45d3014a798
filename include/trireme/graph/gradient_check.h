// gradient_check: the largest error of an op's gradients against finite differences, in one call.
#pragma once

#include <functional>
#include <vector>

#include "trireme/core/device.h"
#include "trireme/graph/graph.h"

namespace trireme {

/// An input of a check: its shape, and the range of values to try it with (uniform). Integer dtypes
/// draw integers in [low, high).
struct CheckInput {
  Spec spec;
  double low = -1, high = 1;
  bool parameter = false;
  Place place = Place::whole;  // on the tensor axis; parameters: whole or split
  bool differentiable = true;  // of a subgraph; an op says so itself
  CheckInput(Spec s, double l = -1, double h = 1, bool p = false)
      : spec(s), low(l), high(h), parameter(p) {}
};

/// Largest, over all differentiable inputs, of |analytic - numeric| / |numeric| in the 2-norm,
/// where numeric is a fourth-order central difference of a random linear function of the outputs,
/// accumulated in fp64. The op runs alone, used twice, recomputed, and without sharing and packing;
/// these must agree bit for bit. Throws: Error when not.
double gradient_check(OpPtr op, const std::vector<CheckInput>& inputs, Device& device);
template <class O>
requires std::is_base_of_v<Op, O>
double gradient_check(const O& op, const std::vector<CheckInput>& inputs, Device& device) {
  return gradient_check(std::make_shared<O>(op), inputs, device);
}
/// The same for a subgraph: `build` gets the inputs and returns one value.
double gradient_check(const std::function<Value(Graph&, const Values&)>& build,
                      const std::vector<CheckInput>& inputs, Device& device);

}  // namespace trireme
