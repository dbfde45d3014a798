// Residual and bias additions. Their input gradients are the output's gradient itself, so they cost
// nothing in backward.
#include "trireme/nn/add.h"

#include "trireme/kernels/elementwise.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

class Add final : public KernelOp {
 public:
  std::string name() const override { return "add"; }
  Outputs infer(const Specs& in) const override {
    require(in[0].shape == in[1].shape && is_stored(in[0].dtype) && in[1].dtype == in[0].dtype,
            "adds f32 or bf16 values of one shape, not ", in[0], " and ", in[1]);
    return {Spec(in[0].shape, in[0].dtype)};
  }
  Sharing sharing() const override {
    return Sharing()
        .gradient_passes(0, 0)
        .gradient_passes(1, 0)
        .output_over_input(0, 1)
        .output_over_input(0, 0);
  }
  void forward(Exec& e) const override {
    const Tensor& y = e.output(0);
    e.stream().kernels().elementwise.add(e.stream(), {.count = y.count(),
                                                      .a = e.input(0).data,
                                                      .b = e.input(1).data,
                                                      .y = y.data,
                                                      .dtype = y.dtype});
  }
  void backward(Exec&) const override {}
};

class BiasAddOp final : public KernelOp {
 public:
  std::string name() const override { return "bias_add"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "bias_add's input");
    require_vector_like(in[0], in[1], in[0].shape[1], "the bias");
    return {Spec(in[0].shape, in[0].dtype)};
  }
  bool is_weight(int input) const override { return input == 1; }
  bool accumulates(int input) const override { return input == 1; }
  Sharing sharing() const override {
    return Sharing().gradient_passes(0, 0).output_over_input(0, 0);
  }
  void forward(Exec& e) const override {
    const Tensor& x = e.input(0);
    e.stream().kernels().elementwise.bias_add(
        e.stream(), {x.shape[0], x.shape[1], x.data, e.input(1).data, e.output(0).data, x.dtype});
  }
  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    if (float* dbias = gradient_to_add_to(e, 1))
      e.stream().kernels().elementwise.bias_backward(
          e.stream(), {dy.shape[0], dy.shape[1], dy.data, dbias, dy.dtype});
  }
};

}  // namespace

Value operator+(Value a, Value b) { return apply<Add>({a, b}); }
Value bias_add(Value x, Value bias) { return apply<BiasAddOp>({x, bias}); }

}  // namespace trireme
