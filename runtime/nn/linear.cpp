// Linear layers. The bias and all gradients ride on GEMMs: those of parameters accumulate through
// beta = 1, and the bias's comes with the weight's, in one kernel where the device has a fast one.
#include "trireme/nn/linear.h"

#include "trireme/nn/add.h"
#include "trireme/nn/collectives.h"

#include "runtime/nn/op_helpers.h"
#include "runtime/nn/products.h"

namespace trireme {
namespace {

using namespace nn_detail;

struct WorkspaceBytes {
  Index forward, backward;
};

/// Does the product that makes the weight's gradient make that of the bias too?
bool product_sums_bias(DType dtype) { return dtype == DType::f32; }

/// Which dim of the weight (out, in) the tensor ranks share out.
enum class WeightSplit { none, out, in };

class Linear final : public KernelOp {
 public:
  Linear(WeightSplit split, Bias bias, WorkspaceBytes workspace)
      : split_(split), bias_(bias), workspace_(workspace) {}
  std::string name() const override { return "linear"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "linear's input");
    require(in[0].strides[1] == 1, "the channels of linear's input lie side by side; ", in[0],
            " needs contiguous()");
    require_rows_like(in[0], in[1], "linear's weight");
    require(in[0].shape[1] == in[1].shape[1], "linear's input ", in[0], " has ", in[0].shape[1],
            " channels but its weight (out, in) is ", in[1]);
    if (bias_ != Bias::none) require_vector_like(in[0], in[2], in[1].shape[0], "linear's bias");
    return {Spec({in[0].shape[0], in[1].shape[0]}, in[0].dtype)};
  }
  bool is_weight(int input) const override { return input >= 1; }
  Saved saved() const override { return Saved::input(0) | Saved::input(1); }
  bool accumulates(int) const override { return true; }
  bool strided(int input) const override { return input == 0; }
  Index forward_workspace_bytes(const Specs&) const override { return workspace_.forward; }
  Index backward_workspace_bytes(const Specs&) const override { return workspace_.backward; }
  double flops(const Specs& in) const override {
    return 2.0 * static_cast<double>(in[0].shape.count()) * static_cast<double>(in[1].shape[0]);
  }

  void forward(Exec& e) const override {
    const Tensor &x = e.input(0), &w = e.input(1), &y = e.output(0);
    Gemm product = forward_product(x, w, y);
    if (bias_ != Bias::none) product.bias = e.input(2).data;
    multiply(e.stream(), product, e.workspace());
  }

  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    if (e.wants(0))
      multiply(e.stream(), input_gradient(dy, e.input(1), e.grad_input(0), write_of(e, 0)),
               e.workspace());
    const bool wants_bias = bias_ != Bias::none && e.wants(2);
    const bool together = wants_bias && e.wants(1) && product_sums_bias(dy.dtype);
    if (e.wants(1)) {
      Gemm product = weight_gradient(dy, e.input(0), e.grad_input(1), write_of(e, 1));
      if (together) {
        product.bias_gradient = e.grad_input(2).as<float>();
        product.write_bias_gradient = write_of(e, 2);
      }
      multiply(e.stream(), product, e.workspace());
    }
    if (wants_bias && !together) {
      e.stream().kernels().elementwise.bias_backward(
          e.stream(), {dy.shape[0], dy.shape[1], dy.data, gradient_to_add_to(e, 2), dy.dtype});
    }
  }

  Place place(const Places& in, const std::vector<bool>& is_parameter) const override {
    if (split_ == WeightSplit::out) {
      require(in[0] == Place::entered,
              "a weight that is split by outputs works on an entered value, not on one that is ",
              in[0], ": use column_linear, or enter()");
      return Place::split;
    }
    if (split_ == WeightSplit::in) {
      require(in[0] == Place::split && bias_ == Bias::none,
              "a weight that is split by inputs works on split channels, without a bias; the "
              "input is ",
              in[0]);
      return Place::term;
    }
    Places places = in;  // one tensor rank has all of a sharded weight
    std::fill(places.begin() + 1, places.end(), Place::whole);
    return Op::place(places, is_parameter);
  }

 private:
  WeightSplit split_;
  Bias bias_;
  WorkspaceBytes workspace_;
};

WorkspaceBytes workspace_of(const Graph& graph, const Spec& x_spec, const Spec& w_spec, Bias bias) {
  if (x_spec.shape.dims() != 2 || w_spec.shape.dims() != 2) return {};  // infer says what is wrong
  const Tensor x = without_memory(x_spec), w = without_memory(w_spec);
  const Tensor y(nullptr, {x.shape[0], w.shape[0]}, x.dtype), dw(nullptr, w.shape);
  const auto bytes = [&](const Gemm& product) { return product_bytes(graph, product); };
  Gemm of_weight = weight_gradient(y, x, dw, Write::add);
  float bias_gradient = 0;  // that there is one counts, not where
  if (bias != Bias::none && product_sums_bias(x.dtype)) {
    of_weight.bias_gradient = &bias_gradient;
    of_weight.write_bias_gradient = Write::add;
  }
  return {bytes(forward_product(x, w, y)),
          std::max(bytes(input_gradient(y, w, x, Write::assign)), bytes(of_weight))};
}

Value apply_linear(Value x, Value weight, Value bias, WeightSplit split) {
  const WorkspaceBytes workspace =
      workspace_of(x.graph(), x.spec(), weight.spec(), bias ? Bias::zeros : Bias::none);
  if (!bias) return apply<Linear>({x, weight}, split, Bias::none, workspace);
  return apply<Linear>({x, weight, bias}, split, Bias::zeros, workspace);
}

/// "name.weight" or "name.bias" of every part, side by side as one parameter.
Value packed(Graph& g, const std::vector<LinearPart>& parts, const char* suffix, Index in,
             Init init) {
  std::vector<ParameterSpec> specs;
  for (const LinearPart& part : parts) {
    const Shape global = in > 0 ? Shape({part.out, in}) : Shape({part.out});
    specs.push_back({str(part.name, suffix), global, shard(0), init});
  }
  return g.parameters(specs);
}

}  // namespace

Value linear(Value x, Value weight, Value bias) {
  const bool split = tensor_size(x) > 1 && weight.place() == Place::split;
  return apply_linear(x, weight, bias, split ? WeightSplit::out : WeightSplit::none);
}

Value linear(Value x, const std::string& name, Index out, const LinearOptions& options) {
  Graph& g = x.graph();
  return g.scope(name, [&] {
    const Value weight = g.parameter("weight", {out, x.shape().back()}, replicated(), options.init);
    const Value bias =
        options.bias == Bias::none ? Value() : g.parameter("bias", {out}, replicated(), zeros());
    return linear(x, weight, bias);
  });
}

Value column_linear(Value x, const std::string& name, Index out, const LinearOptions& options) {
  return column_linear(x, {{name, out}}, options);
}

Value column_linear(Value x, const std::vector<LinearPart>& parts, const LinearOptions& options) {
  require(!parts.empty(), "column_linear needs at least one part");
  Graph& g = x.graph();
  x = enter_region(x);
  const Value weight = packed(g, parts, ".weight", x.shape().back(), options.init);
  const Value bias = options.bias == Bias::none ? Value() : packed(g, parts, ".bias", 0, zeros());
  return linear(x, weight, bias);
}

Value row_linear(Value x, const std::string& name, Index out, const LinearOptions& options) {
  Graph& g = x.graph();
  return g.scope(name, [&] {
    const Index in = x.shape().back() * tensor_size(x);
    const Value weight = g.parameter("weight", {out, in}, shard(1), options.init);
    const Value bias =
        options.bias == Bias::none ? Value() : g.parameter("bias", {out}, replicated(), zeros());
    if (tensor_size(x) == 1) return linear(x, weight, bias);
    const Value y = leave_region(apply_linear(x, weight, {}, WeightSplit::in), options.sequence);
    return bias ? bias_add(y, bias) : y;
  });
}

}  // namespace trireme
