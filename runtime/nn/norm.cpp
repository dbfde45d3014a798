// Norms, and their fused form with the residual addition: there the addition's node computes the
// norm in the same pass, and a second node, which costs nothing in forward, owns the norm's
// gradient. So the residual's gradient still passes through unchanged, as for a plain addition.
#include "trireme/kernels/norm.h"

#include "trireme/nn/norm.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

/// LayerNorm has a bias and a mean, RMSNorm neither.
struct NormConfig {
  NormKind kind;
  float epsilon;
  Index workspace_bytes = 0;  // of backward
  bool layer() const { return kind == NormKind::layer; }
};

void check_norm(const NormConfig& config, const Specs& in, std::size_t weight) {
  require(is_stored(in[0].dtype) && in[0].shape.dims() >= 1, "normalises f32 or bf16 rows, not ",
          in[0]);
  require_vector_like(in[0], in[weight], in[0].shape.back(), "the norm's weight");
  if (config.layer())
    require_vector_like(in[0], in[weight + 1], in[0].shape.back(), "the norm's bias");
}
Spec one_per_row(const Spec& x) { return Spec({x.shape.rows()}); }
double norm_flops(const Spec& x) { return 8.0 * static_cast<double>(x.shape.count()); }

/// Gradients of a norm of `s`: of s itself into input 0, of weight and bias into inputs `weight`
/// and the next.
void norm_backward(Exec& e, const NormConfig& config, int weight, const float* mean,
                   const float* rstd) {
  const Tensor& s = e.input(0);
  const bool wants_dx = e.wants(0);
  e.stream().kernels().norm.backward(
      e.stream(), {.kind = config.kind,
                   .rows = s.shape.rows(),
                   .channels = s.shape.back(),
                   .s = s.data,
                   .weight = e.input(weight).data,
                   .mean = mean,
                   .rstd = rstd,
                   .dy = e.grad_output(0).data,
                   .dsum = nullptr,
                   .dx = wants_dx ? e.grad_input(0).data : nullptr,
                   .write_dx = wants_dx ? write_of(e, 0) : Write::assign,
                   .dweight = gradient_to_add_to(e, weight),
                   .dbias = config.layer() ? gradient_to_add_to(e, weight + 1) : nullptr,
                   .workspace = e.workspace(),
                   .dtype = s.dtype});
}

/// y = norm(x). Inputs: x, weight, [bias]. Sides: 1 / deviation, [mean].
class Norm final : public KernelOp {
 public:
  explicit Norm(NormConfig config) : config_(config) {}
  std::string name() const override { return config_.layer() ? "layer_norm" : "rms_norm"; }
  Outputs infer(const Specs& in) const override {
    check_norm(config_, in, 1);
    Outputs outputs = {Spec(in[0].shape, in[0].dtype), Output::side(one_per_row(in[0]))};
    if (config_.layer()) outputs.push_back(Output::side(one_per_row(in[0])));
    return outputs;
  }
  Saved saved(const BackwardWork&) const override {
    const Saved both = Saved::input(0) | Saved::input(1) | Saved::output(1);
    return config_.layer() ? both | Saved::output(2) : both;
  }
  bool is_weight(int input) const override { return input >= 1; }
  bool accumulates(int) const override { return true; }
  Index backward_workspace_bytes(const Specs&) const override { return config_.workspace_bytes; }
  double flops(const Specs& in) const override { return norm_flops(in[0]); }

  void forward(Exec& e) const override {
    const Tensor& x = e.input(0);
    e.stream().kernels().norm.forward(e.stream(),
                                      {.kind = config_.kind,
                                       .rows = x.shape.rows(),
                                       .channels = x.shape.back(),
                                       .epsilon = config_.epsilon,
                                       .x = x.data,
                                       .delta = nullptr,
                                       .weight = e.input(1).data,
                                       .bias = config_.layer() ? e.input(2).data : nullptr,
                                       .sum = nullptr,
                                       .y = e.output(0).data,
                                       .mean = config_.layer() ? e.output(2).as<float>() : nullptr,
                                       .rstd = e.output(1).as<float>(),
                                       .dtype = x.dtype});
  }
  void backward(Exec& e) const override {
    norm_backward(e, config_, 1, config_.layer() ? e.output(2).as<float>() : nullptr,
                  e.output(1).as<float>());
  }

 private:
  NormConfig config_;
};

/// Inputs: x, delta, weight, [bias]. Outputs: sum, norm(sum), 1 / deviation, [mean].
class AddNorm final : public KernelOp {
 public:
  explicit AddNorm(NormConfig config) : config_(config) {}
  std::string name() const override { return config_.layer() ? "add_layer_norm" : "add_rms_norm"; }
  Outputs infer(const Specs& in) const override {
    require(in[0].shape == in[1].shape && in[0].dtype == in[1].dtype,
            "adds values of one shape and type, not ", in[0], " and ", in[1]);
    check_norm(config_, in, 2);
    const Spec rows(in[0].shape, in[0].dtype);
    Outputs outputs = {rows, rows, one_per_row(in[0])};
    if (config_.layer()) outputs.push_back(one_per_row(in[0]));
    return outputs;
  }
  Sharing sharing() const override {
    return Sharing()
        .gradient_passes(0, 0)
        .gradient_passes(1, 0)
        .output_over_input(0, 1)
        .output_over_input(0, 0);
  }
  bool differentiable(int input) const override { return input < 2; }  // the rest: NormGradient
  double flops(const Specs& in) const override { return norm_flops(in[0]); }

  void forward(Exec& e) const override {
    const Tensor& x = e.input(0);
    e.stream().kernels().norm.forward(e.stream(),
                                      {.kind = config_.kind,
                                       .rows = x.shape.rows(),
                                       .channels = x.shape.back(),
                                       .epsilon = config_.epsilon,
                                       .x = x.data,
                                       .delta = e.input(1).data,
                                       .weight = e.input(2).data,
                                       .bias = config_.layer() ? e.input(3).data : nullptr,
                                       .sum = e.output(0).data,
                                       .y = e.output(1).data,
                                       .mean = config_.layer() ? e.output(3).as<float>() : nullptr,
                                       .rstd = e.output(2).as<float>(),
                                       .dtype = x.dtype});
  }
  void backward(Exec&) const override {}

 private:
  NormConfig config_;
};

/// The norm that AddNorm computed, with its gradient. Inputs: sum, normed, weight, [bias], 1 /
/// deviation, [mean].
class NormOfSum final : public KernelOp {
 public:
  explicit NormOfSum(NormConfig config) : config_(config), rstd_(config.layer() ? 4 : 3) {}
  std::string name() const override { return config_.layer() ? "layer_norm" : "rms_norm"; }
  Outputs infer(const Specs& in) const override { return {Output::identity(1, in[1])}; }
  Saved saved(const BackwardWork&) const override {
    const Saved both = Saved::input(0) | Saved::input(2) | Saved::input(rstd_);
    return config_.layer() ? both | Saved::input(rstd_ + 1) : both;
  }
  bool differentiable(int input) const override { return input != 1 && input < rstd_; }
  bool is_weight(int input) const override { return 1 < input && input < rstd_; }
  bool accumulates(int) const override { return true; }
  Index backward_workspace_bytes(const Specs&) const override { return config_.workspace_bytes; }
  double flops(const Specs& in) const override { return norm_flops(in[0]); }

  void forward(Exec&) const override {}
  void backward(Exec& e) const override {
    norm_backward(e, config_, 2, config_.layer() ? e.input(rstd_ + 1).as<float>() : nullptr,
                  e.input(rstd_).as<float>());
  }

 private:
  NormConfig config_;
  int rstd_;
};

NormConfig config_for(Value x, NormKind kind, float epsilon) {
  return {kind, epsilon,
          norm_backward_workspace_bytes(x.graph().device(), x.shape().rows(), x.shape().back())};
}

/// Weight, and bias for LayerNorm, of the current scope.
Values norm_parameters(Graph& g, const std::string& name, NormConfig config, Index channels) {
  return g.scope(name, [&] {
    Values parameters = {g.parameter("weight", {channels}, replicated(), ones())};
    if (config.layer())
      parameters.push_back(g.parameter("bias", {channels}, replicated(), zeros()));
    return parameters;
  });
}

Value norm(Value x, const std::string& name, NormConfig config) {
  Values inputs = norm_parameters(x.graph(), name, config, x.shape().back());
  inputs.insert(inputs.begin(), x);
  return apply<Norm>(inputs, config);
}

/// `parameters`: weight, and bias for LayerNorm.
SumAndNorm add_norm(Value x, Value delta, const Values& parameters, NormConfig config) {
  Values inputs = {x, delta};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  const Values added = apply_all<AddNorm>(inputs, config);  // sum, normed, 1 / deviation, [mean]

  Values second = {added[0], added[1]};
  second.insert(second.end(), parameters.begin(), parameters.end());
  second.insert(second.end(), added.begin() + 2, added.end());
  return {added[0], apply<NormOfSum>(second, config)};
}
SumAndNorm add_norm(Value x, Value delta, const std::string& name, NormConfig config) {
  return add_norm(x, delta, norm_parameters(x.graph(), name, config, x.shape().back()), config);
}

}  // namespace

Value layer_norm(Value x, Value weight, Value bias, float epsilon) {
  return apply<Norm>({x, weight, bias}, config_for(x, NormKind::layer, epsilon));
}
Value rms_norm(Value x, Value weight, float epsilon) {
  return apply<Norm>({x, weight}, config_for(x, NormKind::rms, epsilon));
}
Value layer_norm(Value x, const std::string& name, float epsilon) {
  return norm(x, name, config_for(x, NormKind::layer, epsilon));
}
Value rms_norm(Value x, const std::string& name, float epsilon) {
  return norm(x, name, config_for(x, NormKind::rms, epsilon));
}
SumAndNorm add_layer_norm(Value x, Value delta, Value weight, Value bias, float epsilon) {
  return add_norm(x, delta, Values{weight, bias}, config_for(x, NormKind::layer, epsilon));
}
SumAndNorm add_rms_norm(Value x, Value delta, Value weight, float epsilon) {
  return add_norm(x, delta, Values{weight}, config_for(x, NormKind::rms, epsilon));
}
SumAndNorm add_layer_norm(Value x, Value delta, const std::string& name, float epsilon) {
  return add_norm(x, delta, name, config_for(x, NormKind::layer, epsilon));
}
SumAndNorm add_rms_norm(Value x, Value delta, const std::string& name, float epsilon) {
  return add_norm(x, delta, name, config_for(x, NormKind::rms, epsilon));
}

}  // namespace trireme
