// Pointwise non-linearities and the gated one. Backward reads the input; the gradient takes memory
// that dies there.
#include "trireme/kernels/activation.h"

#include "trireme/nn/activation.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

class Pointwise final : public KernelOp {
 public:
  explicit Pointwise(Activation kind) : kind_(kind) {}
  std::string name() const override {
    switch (kind_) {
      case Activation::gelu_tanh:
        return "gelu_tanh";
      case Activation::gelu_erf:
        return "gelu_erf";
      case Activation::silu:
        return "silu";
    }
    return "activation";
  }
  Outputs infer(const Specs& in) const override {
    require(is_stored(in[0].dtype), "works on f32 or bf16, not ", in[0]);
    return {Spec(in[0].shape, in[0].dtype)};
  }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  Sharing sharing() const override { return elementwise_sharing(1); }
  bool accumulates(int) const override { return true; }
  double flops(const Specs& in) const override {
    return 10.0 * static_cast<double>(in[0].shape.count());
  }
  void forward(Exec& e) const override {
    const Tensor& x = e.input(0);
    e.stream().kernels().activation.forward(e.stream(),
                                            {kind_, x.count(), x.data, e.output(0).data, x.dtype});
  }
  void backward(Exec& e) const override {
    const Tensor& x = e.input(0);
    e.stream().kernels().activation.backward(
        e.stream(), {kind_, x.count(), x.data, e.grad_output(0).data, e.grad_input(0).data,
                     write_of(e, 0), x.dtype});
  }

 private:
  Activation kind_;
};

class Swiglu final : public KernelOp {
 public:
  std::string name() const override { return "swiglu"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "swiglu's input");
    require(in[0].shape[1] % 2 == 0, "gate and up have one width, so ", in[0],
            " needs an even number of columns");
    return {Spec({in[0].shape[0], in[0].shape[1] / 2}, in[0].dtype)};
  }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  Sharing sharing() const override { return Sharing().gradient_over_input(0, 0); }
  bool accumulates(int) const override { return true; }
  double flops(const Specs& in) const override {
    return 5.0 * static_cast<double>(in[0].shape.count());
  }
  void forward(Exec& e) const override {
    const Tensor& y = e.output(0);
    e.stream().kernels().activation.swiglu_forward(
        e.stream(), {y.shape[0], y.shape[1], e.input(0).data, y.data, y.dtype});
  }
  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    e.stream().kernels().activation.swiglu_backward(
        e.stream(), {dy.shape[0], dy.shape[1], e.input(0).data, dy.data, e.grad_input(0).data,
                     write_of(e, 0), dy.dtype});
  }
};

}  // namespace

Value gelu_tanh(Value x) { return apply<Pointwise>({x}, Activation::gelu_tanh); }
Value gelu_erf(Value x) { return apply<Pointwise>({x}, Activation::gelu_erf); }
Value silu(Value x) { return apply<Pointwise>({x}, Activation::silu); }
Value swiglu(Value gate_up) { return apply<Swiglu>({gate_up}); }

}  // namespace trireme
