// The defaults of an op.
#include "trireme/graph/op.h"

#include <algorithm>

namespace trireme {
namespace {

double bytes_of(const Spec& spec) { return static_cast<double>(spec.bytes()); }

bool is_new(const Output& output) {
  return output.kind() != Output::Kind::view && output.kind() != Output::Kind::identity;
}

double new_bytes(const Outputs& outputs) {
  double sum = 0;
  for (const Output& output : outputs)
    if (is_new(output)) sum += bytes_of(output.spec());
  return sum;
}

/// A gradient flows through it, and the op computes it.
bool has_gradient(const Output& output) {
  return (output.kind() == Output::Kind::fresh || output.kind() == Output::Kind::identity) &&
         is_floating(output.spec().dtype);
}

/// Gradients of weights are f32.
double gradient_bytes(const Op& op, const Spec& spec, int input) {
  const DType dtype = op.is_weight(input) ? DType::f32 : spec.dtype;
  return static_cast<double>(spec.shape.count() * size_bytes(dtype));
}

}  // namespace

double OpTraits::flops(const Specs& inputs) const {
  double elements = 0;
  for (const Spec& spec : inputs) elements += static_cast<double>(spec.shape.count());
  return elements;
}

double Op::bytes(const Specs& inputs) const {
  double sum = new_bytes(infer(inputs));
  for (const Spec& spec : inputs) sum += bytes_of(spec);
  return sum;
}

double OpTraits::backward_flops(const Specs& inputs, const BackwardWork& work) const {
  bool has_weights = false, weights = false, others = false;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    has_weights = has_weights || is_weight(i);
    if (work.wants(i)) (is_weight(i) ? weights : others) = true;
  }
  const int for_others = has_weights ? 1 : 2;
  return flops(inputs) * ((weights ? 1 : 0) + (others ? for_others : 0) + work.makes_outputs);
}

double Op::backward_bytes(const Specs& inputs, const BackwardWork& work) const {
  const Saved saves = saved(work);
  const Outputs outputs = infer(inputs);
  double sum = work.makes_outputs ? new_bytes(outputs) : 0;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const Spec& spec = inputs[static_cast<std::size_t>(i)];
    if (saves.has_input(i)) sum += bytes_of(spec);
    sum += work.passes(i) * gradient_bytes(*this, spec, i);
  }
  for (int o = 0; o < static_cast<int>(outputs.size()); ++o) {
    const Output& output = outputs[static_cast<std::size_t>(o)];
    if (has_gradient(output)) sum += bytes_of(output.spec());
    if (saves.has_output(o) && !work.makes_outputs) sum += bytes_of(output.spec());
  }
  return sum;
}

Placement OpTraits::placement(const Placements& inputs,
                              const std::vector<bool>& is_parameter) const {
  const auto any = [&](Placement placement) {
    return std::find(inputs.begin(), inputs.end(), placement) != inputs.end();
  };
  for (std::size_t i = 0; i < inputs.size(); ++i)
    require(inputs[i] != Placement::partial, "input ", i,
            " is partial, one term of a sum over the tensor axis: it has to leave (all-reduce or "
            "reduce-scatter) before it is used");
  const Placement out = any(Placement::sharded)            ? Placement::sharded
                        : any(Placement::partial_gradient) ? Placement::partial_gradient
                                                           : Placement::replicated;
  if (out == Placement::replicated) return out;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    require(inputs[i] != Placement::replicated || is_parameter[i] ||
                !differentiable(static_cast<int>(i)),
            "input ", i, " is replicated beside ", out,
            " ones, so its gradient would be counted once per tensor rank: it has to enter the "
            "tensor axis first");
  return out;
}

}  // namespace trireme
