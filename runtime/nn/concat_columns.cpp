#include "trireme/nn/arithmetic.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
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
