// Arithmetic on values. Backward saves what a slope is computed from and no more: nothing for
// differences, scales and sums.
#include "trireme/nn/arithmetic.h"

#include "trireme/kernels/arithmetic.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

class FormulaOp final : public KernelOp {
 public:
  explicit FormulaOp(Formula formula, float factor = 1) : formula_(formula), factor_(factor) {}
  std::string name() const override {
    switch (formula_) {
      case Formula::scale:
        return "scale";
      case Formula::sigmoid:
        return "sigmoid";
      case Formula::tanh:
        return "tanh";
      case Formula::relu:
        return "relu";
      case Formula::exp:
        return "exp";
    }
    return "formula";
  }
  Outputs infer(const Specs& in) const override {
    require(is_stored(in[0].dtype), "works on f32 or bf16, not ", in[0]);
    return {Spec(in[0].shape, in[0].dtype)};
  }
  Saved saved(const BackwardWork&) const override {
    switch (slope_of(formula_)) {
      case SlopeOf::nothing:
        break;
      case SlopeOf::input:
        return Saved::input(0);
      case SlopeOf::output:
        return Saved::output(0);
    }
    return Saved::nothing();
  }
  Sharing sharing() const override { return elementwise_sharing(1); }
  bool accumulates(int) const override { return true; }
  double flops(const Specs& in) const override {
    const bool cheap = formula_ == Formula::scale || formula_ == Formula::relu;
    return (cheap ? 1.0 : 10.0) * static_cast<double>(in[0].shape.count());
  }
  void forward(Exec& e) const override {
    const Tensor& y = e.output(0);
    e.stream().kernels().arithmetic.formula_forward(
        e.stream(), {formula_, y.count(), e.input(0).data, y.data, factor_, y.dtype});
  }
  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    const SlopeOf from = slope_of(formula_);
    const void* saved = from == SlopeOf::input    ? e.input(0).data
                        : from == SlopeOf::output ? e.output(0).data
                                                  : nullptr;
    e.stream().kernels().arithmetic.formula_backward(
        e.stream(), {formula_, dy.count(), saved, dy.data, e.grad_input(0).data, factor_,
                     write_of(e, 0), dy.dtype});
  }

 private:
  Formula formula_;
  float factor_;
};

void require_alike(const Specs& in) {
  require(in[0].shape == in[1].shape && is_stored(in[0].dtype) && in[1].dtype == in[0].dtype,
          "takes f32 or bf16 values of one shape and type, not ", in[0], " and ", in[1]);
}
void run_pair(Exec& e, PairFormula formula) {
  const Tensor& y = e.output(0);
  e.stream().kernels().arithmetic.pair_forward(
      e.stream(), {formula, y.count(), e.input(0).data, e.input(1).data, y.data, y.dtype});
}

class Multiply final : public KernelOp {
 public:
  std::string name() const override { return "multiply"; }
  Outputs infer(const Specs& in) const override {
    require_alike(in);
    return {Spec(in[0].shape, in[0].dtype)};
  }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  Sharing sharing() const override { return elementwise_sharing(2); }
  bool accumulates(int) const override { return true; }
  void forward(Exec& e) const override { run_pair(e, PairFormula::product); }
  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    const auto gradient = [&](int i) { return e.wants(i) ? e.grad_input(i).data : nullptr; };
    e.stream().kernels().arithmetic.product_backward(
        e.stream(), {dy.count(), e.input(0).data, e.input(1).data, dy.data, gradient(0),
                     gradient(1), write_of(e, 0), write_of(e, 1), dy.dtype});
  }
};

/// The gradient of a is that of the result; the gradient of b is its negative.
class Subtract final : public KernelOp {
 public:
  std::string name() const override { return "subtract"; }
  Outputs infer(const Specs& in) const override {
    require_alike(in);
    return {Spec(in[0].shape, in[0].dtype)};
  }
  Sharing sharing() const override {
    return Sharing()
        .gradient_passes(0, 0)
        .gradient_over_output(1, 0)
        .output_over_input(0, 0)
        .output_over_input(0, 1);
  }
  bool accumulates(int input) const override { return input == 1; }
  void forward(Exec& e) const override { run_pair(e, PairFormula::difference); }
  void backward(Exec& e) const override {
    if (!e.wants(1)) return;
    const Tensor& dy = e.grad_output(0);
    e.stream().kernels().arithmetic.formula_backward(
        e.stream(), {Formula::scale, dy.count(), nullptr, dy.data, e.grad_input(1).data, -1,
                     write_of(e, 1), dy.dtype});
  }
};

/// factor * the sum of all elements, over all tensor ranks where `sharded`.
class Sum final : public KernelOp {
 public:
  Sum(std::string name, bool sharded, double factor)
      : name_(std::move(name)), sharded_(sharded), factor_(factor) {}
  std::string name() const override { return name_; }
  Outputs infer(const Specs& in) const override {
    require(is_stored(in[0].dtype), "works on f32 or bf16, not ", in[0]);
    return {Spec(Shape{}, DType::f64)};
  }
  bool accumulates(int) const override { return true; }
  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    require(in[0] == (sharded_ ? Placement::sharded : Placement::replicated),
            "sums a value that is replicated or sharded on the tensor axis, not ", in[0],
            ": leave the tensor-parallel region first");
    return Placement::replicated;
  }
  void forward(Exec& e) const override {
    const Tensor& x = e.input(0);
    auto* sum = e.output(0).as<double>();
    e.stream().kernels().arithmetic.sum_forward(e.stream(),
                                                {x.count(), x.data, sum, factor_, x.dtype});
    if (sharded_)
      e.group(Role::tensor).all_reduce({sum, 1, DType::f64}, Reduction::sum, e.stream());
  }
  void backward(Exec& e) const override {
    const Tensor& dx = e.grad_input(0);
    e.stream().kernels().arithmetic.sum_backward(
        e.stream(),
        {dx.count(), e.grad_output(0).as<double>(), dx.data, factor_, write_of(e, 0), dx.dtype});
  }

 private:
  std::string name_;
  bool sharded_;
  double factor_;
};

}  // namespace

Value operator*(Value a, Value b) { return apply<Multiply>({a, b}); }
Value operator-(Value a, Value b) { return apply<Subtract>({a, b}); }
Value operator*(float factor, Value x) { return apply<FormulaOp>({x}, Formula::scale, factor); }
Value operator*(Value x, float factor) { return factor * x; }
Value operator-(Value x) { return -1.0f * x; }

Value sigmoid(Value x) { return apply<FormulaOp>({x}, Formula::sigmoid); }
Value tanh(Value x) { return apply<FormulaOp>({x}, Formula::tanh); }
Value relu(Value x) { return apply<FormulaOp>({x}, Formula::relu); }
Value exp(Value x) { return apply<FormulaOp>({x}, Formula::exp); }

Value sum(Value x) { return apply<Sum>({x}, "sum", x && x.placement() == Placement::sharded, 1.0); }
Value mean(Value x) {
  require(x && x.placement() == Placement::replicated && x.shape().dims() > 0,
          "mean takes a replicated value of rows");
  const double each = static_cast<double>(x.shape()[0]) / static_cast<double>(x.shape().count());
  return apply<Sum>({x}, "mean", false, each);
}

namespace {

using namespace nn;

class ConcatColumns final : public KernelOp {
 public:
  explicit ConcatColumns(const Values& parts) {
    Index first = 0;
    for (const Value& part : parts) {
      const Index width = part && part.shape().dims() == 2 ? part.shape()[1] : 0;
      firsts_.push_back(first);
      widths_.push_back(width);
      first += width;
    }
  }
  std::string name() const override { return "concat_columns"; }
  Outputs infer(const Specs& in) const override {
    Index columns = 0;
    for (const Spec& x : in) {
      require_rows(x, "a part of concat_columns");
      require(x.shape[0] == in[0].shape[0] && x.dtype == in[0].dtype,
              "concat_columns takes matrices of the same rows and type, not ", in[0], " and ", x);
      columns += x.shape[1];
    }
    return {Spec({in[0].shape[0], columns}, in[0].dtype)};
  }
  bool strided(int) const override { return true; }
  bool accumulates(int) const override { return true; }
  double flops(const Specs&) const override { return 0; }
  void forward(Exec& e) const override {
    for (std::size_t i = 0; i < widths_.size(); ++i)
      e.stream().copy(columns_of(e.output(0), firsts_[i], widths_[i]),
                      e.input(static_cast<int>(i)));
  }
  void backward(Exec& e) const override {
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      if (!e.wants(static_cast<int>(i))) continue;
      const Tensor& dx = e.grad_input(static_cast<int>(i));
      const Tensor dy = columns_of(e.grad_output(0), firsts_[i], widths_[i]);
      if (e.accumulate(static_cast<int>(i)))
        e.stream().add(dx, dy);
      else
        e.stream().copy(dx, dy);
    }
  }

 private:
  std::vector<Index> firsts_, widths_;
};

}  // namespace

Value concat_columns(const Values& parts) { return apply<ConcatColumns>(parts, parts); }

}  // namespace trireme
