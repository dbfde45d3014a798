// Views of values, and the one copy that makes a view packed.
#include "trireme/nn/views.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

class Slice final : public KernelOp {
 public:
  Slice(int dim, Index begin, Index end) : dim_(dim), begin_(begin), end_(end) {}
  std::string name() const override { return "slice"; }
  Outputs infer(const Specs& in) const override {
    const Spec part = in[0].sliced(dim_, begin_, end_);
    return {Output::view(0, part, begin_ * in[0].strides[dim_])};
  }
  bool strided(int) const override { return true; }
  double flops(const Specs&) const override { return 0; }
  void forward(Exec&) const override {}
  void backward(Exec&) const override {}

 private:
  int dim_;
  Index begin_, end_;
};

class Reshape final : public KernelOp {
 public:
  explicit Reshape(Shape shape) : shape_(shape) {}
  std::string name() const override { return "reshape"; }
  Outputs infer(const Specs& in) const override {
    return {Output::view(0, in[0].reshaped(shape_))};
  }
  double flops(const Specs&) const override { return 0; }
  void forward(Exec&) const override {}
  void backward(Exec&) const override {}

 private:
  Shape shape_;
};

class Contiguous final : public KernelOp {
 public:
  std::string name() const override { return "contiguous"; }
  Outputs infer(const Specs& in) const override { return {Spec(in[0].shape, in[0].dtype)}; }
  bool strided(int) const override { return true; }
  bool accumulates(int) const override { return true; }
  double flops(const Specs&) const override { return 0; }
  void forward(Exec& e) const override { e.stream().copy(e.output(0), e.input(0)); }
  void backward(Exec& e) const override {
    if (e.accumulate(0)) {
      e.stream().add(e.grad_input(0), e.grad_output(0));
    } else {
      e.stream().copy(e.grad_input(0), e.grad_output(0));
    }
  }
};

}  // namespace

Value slice(Value x, int dim, Index begin, Index end) { return apply<Slice>({x}, dim, begin, end); }
Value reshape(Value x, Shape shape) { return apply<Reshape>({x}, shape); }
Value contiguous(Value x) { return x.spec().packed() ? x : apply<Contiguous>({x}); }

}  // namespace trireme
