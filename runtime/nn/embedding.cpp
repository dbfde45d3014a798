// Token rows from a table that may be split by vocabulary, and learned positions.
#include "trireme/nn/embedding.h"

#include <algorithm>

#include "trireme/kernels/embedding.h"
#include "trireme/nn/collectives.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

/// Inputs: tokens, table. A sharded table gives one term: zeros where another rank has the token.
class Embedding final : public KernelOp {
 public:
  /// `first`: vocabulary index of row 0 of this rank's table. `result`: partial where other ranks
  /// have other rows. `workspace_bytes`: of backward.
  Embedding(Index first, Placement result, Index workspace_bytes)
      : first_(first), result_(result), workspace_bytes_(workspace_bytes) {}
  std::string name() const override { return "embedding"; }
  Outputs infer(const Specs& in) const override {
    require(in[0].dtype == DType::i32, "tokens are i32, not ", in[0]);
    require_rows(in[1], "the table");
    return {Spec({in[0].shape.count(), in[1].shape[1]}, in[1].dtype)};
  }
  bool is_weight(int input) const override { return input == 1; }
  bool differentiable(int input) const override { return input == 1; }
  bool accumulates(int) const override { return true; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  Index forward_workspace_bytes(const Specs&) const override { return 0; }
  Index backward_workspace_bytes(const Specs&) const override { return workspace_bytes_; }
  double flops(const Specs& in) const override {
    return static_cast<double>(in[0].shape.count() * in[1].shape[1]);
  }
  /// Rows of the table, not the table.
  double bytes(const Specs& in) const override {
    return bytes_of(in[0]) + 2 * bytes_of(Spec({in[0].shape.count(), in[1].shape[1]}, in[1].dtype));
  }
  /// A row that many tokens have is read and written once; zeroed first where it is not added to.
  double backward_bytes(const Specs& in, const BackwardWork& work) const override {
    const Index rows = in[0].shape.count(), channels = in[1].shape[1];
    const Index written = std::min(rows, in[1].shape[0]);
    const bool zeroed = work.of(1) == BackwardWork::Gradient::assigned;
    return bytes_of(in[0]) + bytes_of(Spec({rows, channels}, in[1].dtype)) +
           2 * gradient_bytes_of({written, channels}) + (zeroed ? gradient_bytes_of(in[1]) : 0);
  }

  void forward(Exec& e) const override {
    const Tensor &tokens = e.input(0), &table = e.input(1), &y = e.output(0);
    e.stream().kernels().embedding.forward(e.stream(), {.rows = y.shape[0],
                                                        .channels = y.shape[1],
                                                        .tokens = tokens.as<std::int32_t>(),
                                                        .table = table.data,
                                                        .first = first_,
                                                        .rows_of_table = table.shape[0],
                                                        .y = y.data,
                                                        .dtype = y.dtype});
  }
  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    float* dtable = gradient_to_add_to(e, 1);
    if (dtable == nullptr) return;
    e.stream().kernels().embedding.backward(e.stream(), {.rows = dy.shape[0],
                                                         .channels = dy.shape[1],
                                                         .tokens = e.input(0).as<std::int32_t>(),
                                                         .dy = dy.data,
                                                         .dtable = dtable,
                                                         .first = first_,
                                                         .rows_of_table = e.grad_input(1).shape[0],
                                                         .workspace = e.workspace(),
                                                         .dtype = dy.dtype});
  }
  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    require(in[0] == Placement::replicated, "tokens are replicated on the tensor axis, not ",
            in[0]);
    return result_;
  }

 private:
  Index first_;
  Placement result_;
  Index workspace_bytes_;
};

/// Inputs: x, table.
class AddPositions final : public KernelOp {
 public:
  /// `part`: which of the equal parts of the rows x is.
  AddPositions(Index sequence, Index part) : sequence_(sequence), part_(part) {}
  std::string name() const override { return "add_positions"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "add_positions' input");
    require_rows_like(in[0], in[1], "the position table");
    require(in[1].shape[0] >= sequence_ && in[1].shape[1] == in[0].shape[1], "a sequence of ",
            sequence_, " rows of ", in[0],
            " needs a position table with at least as many rows, not ", in[1]);
    return {Spec(in[0].shape, in[0].dtype)};
  }
  bool is_weight(int input) const override { return input == 1; }
  Sharing sharing() const override {
    return Sharing().gradient_passes(0, 0).output_over_input(0, 0);
  }
  bool accumulates(int input) const override { return input == 1; }
  double bytes(const Specs& in) const override {  // positions of the sequence, not the table
    return 2 * bytes_of(in[0]) + bytes_of(positions(in));
  }
  double backward_bytes(const Specs& in, const BackwardWork& work) const override {
    const bool zeroed = work.of(1) == BackwardWork::Gradient::assigned;
    return bytes_of(in[0]) + 2 * gradient_bytes_of(positions(in)) +
           (zeroed ? gradient_bytes_of(in[1]) : 0);
  }

  void forward(Exec& e) const override {
    const Tensor& x = e.input(0);
    e.stream().kernels().embedding.position_forward(e.stream(), {.rows = x.shape[0],
                                                                 .channels = x.shape[1],
                                                                 .sequence = sequence_,
                                                                 .first_row = part_ * x.shape[0],
                                                                 .x = x.data,
                                                                 .table = e.input(1).data,
                                                                 .y = e.output(0).data,
                                                                 .dtype = x.dtype});
  }
  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    if (float* dtable = gradient_to_add_to(e, 1))
      e.stream().kernels().embedding.position_backward(e.stream(),
                                                       {.rows = dy.shape[0],
                                                        .channels = dy.shape[1],
                                                        .sequence = sequence_,
                                                        .first_row = part_ * dy.shape[0],
                                                        .dy = dy.data,
                                                        .dtable = dtable,
                                                        .dtype = dy.dtype});
  }

 private:
  /// Those rows of the table that this part of the sequence has.
  Spec positions(const Specs& in) const {
    return Spec({std::min(sequence_, in[0].shape[0]), in[1].shape[1]}, in[1].dtype);
  }

  Index sequence_, part_;
};

}  // namespace

Value embedding(Value tokens, Value table, SequenceParallel sequence) {
  const bool split = tensor_size(table) > 1 && table.placement() == Placement::sharded;
  const Index bytes =
      embedding_backward_workspace_bytes(table.graph().device(), tokens.shape().count());
  if (split) {
    const Index first = tensor_rank(table) * table.shape()[0];
    return leave_region(apply<Embedding>({tokens, table}, first, Placement::partial, bytes),
                        sequence);
  }
  require(tensor_size(table) == 1 || sequence == SequenceParallel::off,
          "under sequence parallelism the embedding table is split over the tensor axis: declare "
          "it with shard_padded(0)");
  return apply<Embedding>({tokens, table}, 0, Placement::replicated, bytes);
}

Value add_positions(Value x, Value table, Index sequence) {
  const bool split = tensor_size(x) > 1 && x.placement() == Placement::sharded;
  return apply<AddPositions>({x, table}, sequence, split ? tensor_rank(x) : 0);
}

}  // namespace trireme
