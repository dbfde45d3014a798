// Linear layers. The bias, GELU beside a layer and all gradients are part of GEMMs: those of
// parameters accumulate through beta = 1, and what follows a product is fused into its kernel if
// the device has a fast one.
#include "trireme/nn/linear.h"

#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/gemm.h"
#include "trireme/nn/activation.h"
#include "trireme/nn/add.h"
#include "trireme/nn/collectives.h"

#include "runtime/nn/op_helpers.h"
#include "runtime/nn/products.h"

namespace trireme {
namespace {

using namespace nn;

struct WorkspaceBytes {
  Index forward, backward;
};

/// Which dim of the weight (out, in) is divided among the tensor ranks.
enum class WeightSplit { none, out, in };

/// GELU beside a layer, made by its products (tanh form).
enum class Gelu {
  none,
  after,  // a second output is gelu of the first; it is detached: a layer with `before` sends its
          // gradient to the first
  before  // the input is gelu of one more input, the last, which gets the gradient in its place
};

class Linear final : public KernelOp {
 public:
  Linear(WeightSplit split, Bias bias, Gelu gelu, WorkspaceBytes workspace)
      : split_(split), bias_(bias), gelu_(gelu), workspace_(workspace) {}
  std::string name() const override {
    return gelu_ == Gelu::after ? "linear_gelu" : gelu_ == Gelu::before ? "gelu_linear" : "linear";
  }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "linear's input");
    require(in[0].strides[1] == 1, "the channels of linear's input lie side by side; ", in[0],
            " needs contiguous()");
    require_rows_like(in[0], in[1], "linear's weight");
    require(in[0].shape[1] == in[1].shape[1], "linear's input ", in[0], " has ", in[0].shape[1],
            " channels but its weight (out, in) is ", in[1]);
    if (bias_ != Bias::none) require_vector_like(in[0], in[2], in[1].shape[0], "linear's bias");
    const Spec y({in[0].shape[0], in[1].shape[0]}, in[0].dtype);
    if (gelu_ == Gelu::after) return {y, Output::detached(y)};
    return {y};
  }
  bool is_weight(int input) const override { return input >= 1 && input != gelu_input(); }
  bool differentiable(int input) const override { return input != 0 || gelu_ != Gelu::before; }
  Saved saved(const BackwardWork& work) const override {
    Saved saved = work.wants(1) ? Saved::input(0) : Saved::nothing();
    if (!work.wants(source())) return saved;
    saved = saved | Saved::input(1);
    return gelu_ == Gelu::before ? saved | Saved::input(gelu_input()) : saved;
  }
  Sharing sharing() const override {
    return gelu_ == Gelu::before ? Sharing().gradient_over_input(gelu_input(), 0) : Sharing();
  }
  bool accumulates(int input) const override { return input != gelu_input(); }
  bool strided(int input) const override { return input == 0; }
  Index forward_workspace_bytes(const Specs&) const override { return workspace_.forward; }
  Index backward_workspace_bytes(const Specs&) const override { return workspace_.backward; }
  double flops(const Specs& in) const override {
    const Index outputs = in[0].shape[0] * in[1].shape[0];
    return product_flops(in) + (gelu_ == Gelu::after ? gelu_flops(outputs) : 0);
  }
  double bytes(const Specs& in) const override {  // of what input 0 is GELU, forward does not read
    return Op::bytes(in) - (gelu_ == Gelu::before ? bytes_of(in[gelu_at()]) : 0);
  }
  double backward_flops(const Specs& in, const BackwardWork& work) const override {
    const bool gelu = gelu_ == Gelu::before && work.wants(gelu_input());
    return product_flops(in) * (work.wants(1) + work.wants(source())) +
           (gelu ? gelu_flops(in[0].shape.count()) : 0);
  }
  double backward_bytes(const Specs& in, const BackwardWork& work) const override {
    const double dy = bytes_of(Spec({in[0].shape[0], in[1].shape[0]}, in[0].dtype));
    double sum = 0;
    if (work.wants(1)) sum += dy + bytes_of(in[0]) + work.passes(1) * gradient_bytes_of(in[1]);
    if (bias_ != Bias::none && work.wants(2))
      sum += (work.wants(1) ? 0 : dy) + work.passes(2) * gradient_bytes_of(in[2]);
    if (!work.wants(source())) return sum;
    if (gelu_ == Gelu::before) sum += bytes_of(in[gelu_at()]);
    return sum + dy + bytes_of(in[1]) + work.passes(source()) * bytes_of(in[0]);
  }
  WorkParts parts(const Specs& in) const override { return {{forward_work(in[0], in[1])}, {}, {}}; }
  WorkParts backward_parts(const Specs& in, const BackwardWork& work) const override {
    WorkParts parts;
    if (work.wants(1)) parts.products.push_back(weight_gradient_work(in[0], in[1], work.adds(1)));
    if (work.wants(source()))
      parts.products.push_back(input_gradient_work(in[0], in[1], work.adds(source())));
    return parts;
  }

  void forward(Exec& e) const override { multiply(e.stream(), product(e), e.workspace()); }
  void prepare_forward(Exec& e, Preparation& preparation) const override {
    prepare(e.stream(), product(e), e.workspace(), preparation);
  }

  void backward(Exec& e) const override {
    for_each_gradient(e,
                      [&](const Gemm& product) { multiply(e.stream(), product, e.workspace()); });
    const Tensor& dy = e.grad_output(0);
    if (wants_bias(e) && !e.wants(1))
      e.stream().kernels().elementwise.bias_backward(
          e.stream(), {dy.shape[0], dy.shape[1], dy.data, gradient_to_add_to(e, 2), dy.dtype});
  }
  void prepare_backward(Exec& e, Preparation& preparation) const override {
    for_each_gradient(
        e, [&](const Gemm& product) { prepare(e.stream(), product, e.workspace(), preparation); });
  }

  Placement placement(const Placements& in, const std::vector<bool>& is_parameter) const override {
    if (split_ == WeightSplit::out) {
      require(in[0] == Placement::partial_gradient,
              "a weight that is split by outputs works on a partial_gradient value, not on one "
              "that is ",
              in[0], ": use column_linear, or enter()");
      return Placement::sharded;
    }
    if (split_ == WeightSplit::in) {
      require(in[0] == Placement::sharded && bias_ == Bias::none,
              "a weight that is split by inputs works on sharded channels, without a bias; the "
              "input is ",
              in[0],
              " (row_linear takes the result of a column_linear; for a replicated input use "
              "linear)");
      return Placement::partial;
    }
    Placements placements = in;  // one tensor rank has all of a sharded weight
    for (std::size_t i = 1; i < placements.size(); ++i)
      if (is_weight(static_cast<int>(i))) placements[i] = Placement::replicated;
    return Op::placement(placements, is_parameter);
  }

 private:
  /// The last input, of which input 0 is GELU; -1 where there is none.
  int gelu_input() const { return gelu_ != Gelu::before ? -1 : bias_ == Bias::none ? 2 : 3; }
  std::size_t gelu_at() const { return static_cast<std::size_t>(gelu_input()); }
  static double product_flops(const Specs& in) {
    return 2.0 * static_cast<double>(in[0].shape.count()) * static_cast<double>(in[1].shape[0]);
  }
  static double gelu_flops(Index elements) { return 10.0 * static_cast<double>(elements); }
  /// The input whose gradient the product with the weight makes.
  int source() const { return gelu_ == Gelu::before ? gelu_input() : 0; }

  Gemm product(const Exec& e) const {
    Gemm product = forward_product(e.input(0), e.input(1), e.output(0));
    if (bias_ != Bias::none) product.bias = e.input(2).data;
    if (gelu_ == Gelu::after) {
      product.epilogue = Epilogue::gelu;
      product.gelu_input = e.output(0).data;
      product.c = e.output(1).data;
    }
    return product;
  }
  bool wants_bias(const Exec& e) const { return bias_ != Bias::none && e.wants(2); }

  /// The weight's first: the input's may be written over input 0, which that one reads.
  template <class F>
  void for_each_gradient(const Exec& e, F&& f) const {
    const Tensor& dy = e.grad_output(0);
    if (e.wants(1)) {
      Gemm of_weight = weight_gradient(dy, e.input(0), e.grad_input(1), write_of(e, 1));
      if (wants_bias(e)) {
        of_weight.bias_gradient = e.grad_input(2).as<float>();
        of_weight.write_bias_gradient = write_of(e, 2);
      }
      f(of_weight);
    }
    if (!e.wants(source())) return;
    Gemm of_input = input_gradient(dy, e.input(1), e.grad_input(source()), write_of(e, source()));
    if (gelu_ == Gelu::before) {
      of_input.epilogue = Epilogue::gelu_gradient;
      of_input.gelu_input = e.input(gelu_input()).data;
    }
    f(of_input);
  }

  WeightSplit split_;
  Bias bias_;
  Gelu gelu_;
  WorkspaceBytes workspace_;
};

WorkspaceBytes workspace_of(const Graph& graph, const Spec& x_spec, const Spec& w_spec, Bias bias) {
  if (x_spec.shape.dims() != 2 || w_spec.shape.dims() != 2) return {};  // infer says what is wrong
  const Tensor x = without_memory(x_spec), w = without_memory(w_spec);
  const Tensor y(nullptr, {x.shape[0], w.shape[0]}, x.dtype), dw(nullptr, w.shape);
  const auto bytes = [&](const Gemm& product) { return product_bytes(graph, product); };
  Gemm of_weight = weight_gradient(y, x, dw, Write::add);
  float bias_gradient = 0;  // its presence counts, not its address
  if (bias != Bias::none) {
    of_weight.bias_gradient = &bias_gradient;
    of_weight.write_bias_gradient = Write::add;
  }
  return {bytes(forward_product(x, w, y)),
          std::max(bytes(input_gradient(y, w, x, Write::assign)), bytes(of_weight))};
}

/// What a layer works on, apart from how it is split. `bias` may be empty.
struct Layer {
  Value x, weight, bias;
  Gelu gelu = Gelu::none;
  Value gelu_input;  // Gelu::before: x is gelu of this
};

/// One value, or with Gelu::after two.
Values apply_layer(const Layer& layer, WeightSplit split) {
  const Bias bias = layer.bias ? Bias::zeros : Bias::none;
  Values inputs = {layer.x, layer.weight};
  if (layer.bias) inputs.push_back(layer.bias);
  if (layer.gelu == Gelu::before) inputs.push_back(layer.gelu_input);
  return apply_all<Linear>(
      inputs, split, bias, layer.gelu,
      workspace_of(layer.x.graph(), layer.x.spec(), layer.weight.spec(), bias));
}

/// Split by outputs where the weight is.
Values apply_layer(const Layer& layer) {
  const bool split = tensor_size(layer.x) > 1 && layer.weight.placement() == Placement::sharded;
  return apply_layer(layer, split ? WeightSplit::out : WeightSplit::none);
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

Values columns(Value x, const std::vector<LinearPart>& parts, const LinearOptions& options,
               Gelu gelu) {
  require(!parts.empty(), "column_linear needs at least one part");
  Graph& g = x.graph();
  const Value weight = packed(g, parts, ".weight", x.shape().back(), options.init);
  const Value bias = options.bias == Bias::none ? Value() : packed(g, parts, ".bias", 0, zeros());
  std::string names;
  for (const LinearPart& part : parts) names += (names.empty() ? "" : "+") + part.name;
  return g.scope(names, [&] { return apply_layer({enter_region(x), weight, bias, gelu, {}}); });
}

/// `gelu_input`: x is gelu of it; empty: x is an ordinary value.
Value rows(Value x, Value gelu_input, const std::string& name, Index out,
           const LinearOptions& options) {
  Graph& g = x.graph();
  const Gelu gelu = gelu_input ? Gelu::before : Gelu::none;
  return g.scope(name, [&] {
    const Index in = x.shape().back() * tensor_size(x);
    const Value weight = g.parameter("weight", {out, in}, shard(1), options.init);
    const Value bias =
        options.bias == Bias::none ? Value() : g.parameter("bias", {out}, replicated(), zeros());
    if (tensor_size(x) == 1) return apply_layer({x, weight, bias, gelu, gelu_input}).front();
    const Value term = apply_layer({x, weight, {}, gelu, gelu_input}, WeightSplit::in).front();
    const Value y = leave_region(term, options.sequence);
    return bias ? bias_add(y, bias) : y;
  });
}

}  // namespace

Value linear(Value x, Value weight, Value bias) {
  return apply_layer({x, weight, bias, Gelu::none, {}}).front();
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
  return columns(x, parts, options, Gelu::none).front();
}

Value row_linear(Value x, const std::string& name, Index out, const LinearOptions& options) {
  return rows(x, {}, name, out, options);
}

Value gelu_row_linear(Value h, const std::string& name, Index out, const LinearOptions& options) {
  return rows(gelu_tanh(h), h, name, out, options);
}

Value gelu_mlp(Value x, const LinearPart& up, const LinearOptions& up_options,
               const LinearPart& down, const LinearOptions& down_options) {
  const Values h = columns(x, {up}, up_options, Gelu::after);
  return rows(h[1], h[0], down.name, down.out, down_options);
}

}  // namespace trireme
