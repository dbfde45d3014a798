// Dropout by global element. The mask is never stored: backward recomputes it from the same random
// numbers.
#include "trireme/nn/dropout.h"

#include "trireme/kernels/elementwise.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

/// Where this rank's part of the activation starts in the micro-batch's, and how wide the whole one
/// is.
struct Part {
  Index first_row, first_column, columns;
};

class DropoutOp final : public KernelOp {
 public:
  DropoutOp(float rate, Index sequence, Part part)
      : rate_(rate), sequence_(sequence), part_(part) {}
  std::string name() const override { return "dropout"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "dropout's input");
    return {Spec(in[0].shape, in[0].dtype)};
  }
  Sharing sharing() const override { return elementwise_sharing(1); }
  bool accumulates(int) const override { return true; }
  double flops(const Specs& in) const override {
    return 20.0 * static_cast<double>(in[0].shape.count());
  }
  double backward_flops(const Specs& in, const BackwardWork&) const override { return flops(in); }
  void forward(Exec& e) const override { run(e, e.input(0), e.output(0), Write::assign); }
  void backward(Exec& e) const override {
    run(e, e.grad_output(0), e.grad_input(0), write_of(e, 0));
  }

 private:
  /// Whole rows are one run of global elements; a part of the columns is one run a row.
  void run(Exec& e, const Tensor& x, const Tensor& y, Write write) const {
    const bool whole_rows = x.shape[1] == part_.columns;
    const Index runs = whole_rows ? 1 : x.shape[0];
    const Index count = whole_rows ? x.count() : x.shape[1];
    const Index run_bytes = count * size_bytes(x.dtype);
    const Index first_row = e.first_sample() * sequence_ + part_.first_row;
    const StepRandom random = e.random();
    for (Index i = 0; i < runs; ++i)
      e.stream().kernels().elementwise.dropout(
          e.stream(), {.count = count,
                       .first_element = (first_row + i) * part_.columns + part_.first_column,
                       .rate = rate_,
                       .random = random,
                       .x = static_cast<const std::byte*>(x.data) + i * run_bytes,
                       .y = static_cast<std::byte*>(y.data) + i * run_bytes,
                       .write = write,
                       .dtype = x.dtype});
  }

  float rate_;
  Index sequence_;
  Part part_;
};

}  // namespace

Value dropout(Value x, float rate, Index sequence, SplitDim split) {
  require(rate >= 0 && rate < 1, "a dropout rate is at least 0 and below 1, not ", rate);
  require(x.shape().dims() == 2, "dropout works on token rows (rows, channels), not ", x.spec());
  if (rate == 0) return x;
  Part part{0, 0, x.shape()[1]};
  if (tensor_size(x) > 1 && x.placement() == Placement::sharded) {
    if (split == SplitDim::rows) {
      part.first_row = tensor_rank(x) * x.shape()[0];
    } else {
      part.first_column = tensor_rank(x) * x.shape()[1];
      part.columns = tensor_size(x) * x.shape()[1];
    }
  }
  return apply<DropoutOp>({x}, rate, sequence, part);
}

}  // namespace trireme
