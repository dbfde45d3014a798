// Rotary positions: the rotation is orthogonal up to a factor in the table, so its gradient is the
// rotation backwards, in place as well.
#include "trireme/nn/rotary.h"

#include <cmath>

#include "trireme/kernels/rotary.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

class RotaryOp final : public KernelOp {
 public:
  RotaryOp(RotaryTablePtr table, Index heads, Graph& graph)
      : table_(std::move(table)), heads_(heads), constant_(graph.constant(table_)) {}
  std::string name() const override { return "rotary"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "rotary's input");
    require(
        in[0].shape[0] % table_->sequence() == 0 && in[0].shape[1] >= heads_ * table_->head_dim(),
        "rotary turns ", heads_, " heads of ", table_->head_dim(),
        " channels in whole sequences of ", table_->sequence(), " rows; the input is ", in[0]);
    return {Spec(in[0].shape, in[0].dtype)};
  }
  Sharing sharing() const override { return elementwise_sharing(1); }
  double flops(const Specs& in) const override {
    return 3.0 * static_cast<double>(in[0].shape[0] * heads_ * table_->head_dim());
  }
  /// In place: the turned channels, and the table.
  double bytes(const Specs& in) const override {
    const Index turned = in[0].shape[0] * heads_ * table_->head_dim();
    return static_cast<double>(2 * turned * size_bytes(in[0].dtype) + table_->bytes());
  }
  double backward_flops(const Specs& in, const BackwardWork&) const override { return flops(in); }
  double backward_bytes(const Specs& in, const BackwardWork&) const override { return bytes(in); }
  void forward(Exec& e) const override {
    run(e, Rotary::Direction::forward, e.input(0), e.output(0));
  }
  void backward(Exec& e) const override {
    run(e, Rotary::Direction::backward, e.grad_output(0), e.grad_input(0));
  }

 private:
  void run(Exec& e, Rotary::Direction direction, const Tensor& x, const Tensor& y) const {
    e.stream().kernels().rotary.run(e.stream(),
                                    {.direction = direction,
                                     .rows = x.shape[0],
                                     .sequence = table_->sequence(),
                                     .heads = heads_,
                                     .head_dim = table_->head_dim(),
                                     .row_stride = x.shape[1],
                                     .x = x.data,
                                     .y = y.data,
                                     .table = static_cast<const float*>(e.constant(constant_)),
                                     .dtype = x.dtype});
  }

  RotaryTablePtr table_;
  Index heads_;
  int constant_;  // the table
};

}  // namespace

RotaryTable::RotaryTable(Index sequence, std::span<const double> frequencies, double amplitude)
    : sequence_(sequence),
      frequencies_(frequencies.begin(), frequencies.end()),
      amplitude_(amplitude) {
  require(sequence > 0 && !frequencies.empty(),
          "a rotary table needs a sequence and frequencies, not ", sequence, " positions and ",
          frequencies.size(), " frequencies");
}

// In fp64, since positions are large.
void RotaryTable::write(std::byte* to) const {
  auto* values = reinterpret_cast<float*>(to);
  for (Index position = 0; position < sequence_; ++position) {
    const auto p = static_cast<double>(position);
    for (const double f : frequencies_)
      *values++ = static_cast<float>(amplitude_ * std::cos(p * f));
    for (const double f : frequencies_)
      *values++ = static_cast<float>(amplitude_ * std::sin(p * f));
  }
}

RotaryTable::RotaryTable(Index sequence, Index head_dim, float theta)
    : RotaryTable(sequence, rotary_frequencies(head_dim, theta)) {}

Value rotary(Value qkv, RotaryTablePtr table, Index heads) {
  require(qkv && table != nullptr, "rotary needs projections and a table");
  return apply<RotaryOp>({qkv}, std::move(table), heads, qkv.graph());
}

}  // namespace trireme
