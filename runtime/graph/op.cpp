// What an op gets when it does not say otherwise.
#include "trireme/graph/op.h"

#include <algorithm>

namespace trireme {

double Op::flops(const Specs& inputs) const {
  double elements = 0;
  for (const Spec& spec : inputs) elements += static_cast<double>(spec.shape.count());
  return elements;
}

Place Op::place(const Places& inputs, const std::vector<bool>& is_parameter) const {
  const auto any = [&](Place place) {
    return std::find(inputs.begin(), inputs.end(), place) != inputs.end();
  };
  for (std::size_t i = 0; i < inputs.size(); ++i)
    require(inputs[i] != Place::term, "input ", i,
            " is one term of a sum over the tensor axis: it has to leave (all-reduce or "
            "reduce-scatter) before it is used");
  const Place out = any(Place::split)     ? Place::split
                    : any(Place::entered) ? Place::entered
                                          : Place::whole;
  if (out == Place::whole) return out;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    require(inputs[i] != Place::whole || is_parameter[i] || !differentiable(static_cast<int>(i)),
            "input ", i, " is whole beside ", out,
            " ones, so its gradient would be counted once per tensor rank: it has to enter the "
            "tensor axis first");
  return out;
}

}  // namespace trireme
