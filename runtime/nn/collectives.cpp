// The conjugate collectives of the tensor axis. Each is one op whose backward is its conjugate's
// forward.
#include "trireme/nn/collectives.h"

#include <algorithm>

#include "trireme/nn/views.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

/// What every collective checks: the one place it accepts. Activations and their gradients travel
/// in their own type; a sum of bf16 is made in f32 and rounded once.
class TensorCollective : public KernelOp {
 public:
  TensorCollective(const char* name, Placement from, Placement to, Index ranks)
      : name_(name), from_(from), to_(to), ranks_(ranks) {}
  std::string name() const override { return name_; }
  double flops(const Specs&) const override { return 0; }
  Placement placement(const Placements& inputs, const std::vector<bool>&) const override {
    require(inputs[0] == from_, name_, " takes a value that is ", from_,
            " on the tensor axis, not one that is ", inputs[0]);
    return to_;
  }

 protected:
  Index ranks() const { return ranks_; }
  /// What a rank sends, along a ring, to gather `part` of every rank, or to sum so much of each.
  double ring_bytes(double part) const { return static_cast<double>(ranks_ - 1) * part; }
  using Kind = CollectiveWork::Kind;
  /// One collective. `bytes`: of the whole.
  WorkParts one(Kind kind, double bytes) const {
    return {{}, {}, {{kind, static_cast<int>(ranks_), bytes}}};
  }
  double all_parts(const Specs& in) const { return static_cast<double>(ranks_) * bytes_of(in[0]); }

 private:
  const char* name_;
  Placement from_, to_;
  Index ranks_;
};

void all_reduce(Exec& e, const Tensor& from, const Tensor& to) {
  if (to.data != from.data) e.stream().copy(to.data, from.data, from.bytes());
  e.group(Role::tensor).all_reduce(elements(to), Reduction::sum, e.stream());
}
void all_gather(Exec& e, const Tensor& part, const Tensor& whole) {
  e.group(Role::tensor).all_gather(elements(part), elements(whole), e.stream());
}
void reduce_scatter(Exec& e, const Tensor& terms, const Tensor& part) {
  e.group(Role::tensor).reduce_scatter(elements(terms), elements(part), Reduction::sum, e.stream());
}

class Enter final : public TensorCollective {
 public:
  explicit Enter(Index ranks)
      : TensorCollective("enter", Placement::replicated, Placement::partial_gradient, ranks) {}
  Outputs infer(const Specs& in) const override { return {Output::identity(0, in[0])}; }
  Sharing sharing() const override { return Sharing().gradient_over_output(0, 0); }
  double backward_bytes(const Specs& in, const BackwardWork&) const override {
    return 2 * ring_bytes(bytes_of(in[0]) / static_cast<double>(ranks()));
  }
  WorkParts backward_parts(const Specs& in, const BackwardWork&) const override {
    return one(Kind::all_reduce, bytes_of(in[0]));
  }
  void forward(Exec&) const override {}
  void backward(Exec& e) const override { all_reduce(e, e.grad_output(0), e.grad_input(0)); }
};

class Leave final : public TensorCollective {
 public:
  explicit Leave(Index ranks)
      : TensorCollective("leave", Placement::partial, Placement::replicated, ranks) {}
  Outputs infer(const Specs& in) const override { return {Spec(in[0].shape, in[0].dtype)}; }
  Sharing sharing() const override {
    return Sharing().output_over_input(0, 0).gradient_passes(0, 0);
  }
  double bytes(const Specs& in) const override {
    return 2 * ring_bytes(bytes_of(in[0]) / static_cast<double>(ranks()));
  }
  WorkParts parts(const Specs& in) const override { return one(Kind::all_reduce, bytes_of(in[0])); }
  void forward(Exec& e) const override { all_reduce(e, e.input(0), e.output(0)); }
  void backward(Exec&) const override {}
};

class GatherRows final : public TensorCollective {
 public:
  explicit GatherRows(Index ranks)
      : TensorCollective("gather_rows", Placement::sharded, Placement::partial_gradient, ranks) {}
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "gather_rows' input");
    return {Spec({in[0].shape[0] * ranks(), in[0].shape[1]}, in[0].dtype)};
  }
  double bytes(const Specs& in) const override { return ring_bytes(bytes_of(in[0])); }
  double backward_bytes(const Specs& in, const BackwardWork&) const override { return bytes(in); }
  WorkParts parts(const Specs& in) const override { return one(Kind::all_gather, all_parts(in)); }
  WorkParts backward_parts(const Specs& in, const BackwardWork&) const override {
    return one(Kind::reduce_scatter, all_parts(in));
  }
  void forward(Exec& e) const override { all_gather(e, e.input(0), e.output(0)); }
  void backward(Exec& e) const override { reduce_scatter(e, e.grad_output(0), e.grad_input(0)); }
};

class ScatterRows final : public TensorCollective {
 public:
  explicit ScatterRows(Index ranks)
      : TensorCollective("scatter_rows", Placement::partial, Placement::sharded, ranks) {}
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "scatter_rows' input");
    require(in[0].shape[0] % ranks() == 0, "sequence parallelism splits the ", in[0].shape[0],
            " token rows of a micro-batch over ", ranks(), " tensor ranks: not divisible");
    return {Spec({in[0].shape[0] / ranks(), in[0].shape[1]}, in[0].dtype)};
  }
  double bytes(const Specs& in) const override {
    return ring_bytes(bytes_of(in[0]) / static_cast<double>(ranks()));
  }
  double backward_bytes(const Specs& in, const BackwardWork&) const override { return bytes(in); }
  WorkParts parts(const Specs& in) const override {
    return one(Kind::reduce_scatter, bytes_of(in[0]));
  }
  WorkParts backward_parts(const Specs& in, const BackwardWork&) const override {
    return one(Kind::all_gather, bytes_of(in[0]));
  }
  void forward(Exec& e) const override { reduce_scatter(e, e.input(0), e.output(0)); }
  void backward(Exec& e) const override { all_gather(e, e.grad_output(0), e.grad_input(0)); }
};

/// whole (rows, columns) <- the parts of all ranks, by way of `workspace` (ranks, rows, part
/// columns). Columns of the parts beyond those of `whole` are padding.
void gather_all_columns(Exec& e, const Tensor& part, const Tensor& whole) {
  const Tensor gathered(e.workspace(), {e.group(Role::tensor).size() * part.count()}, part.dtype);
  all_gather(e, part, gathered);
  const Index width = part.shape[1];
  for (Index first = 0; first < whole.shape[1]; first += width) {
    const Index count = std::min(width, whole.shape[1] - first);
    Tensor from = part;
    from.data = static_cast<std::byte*>(gathered.data) + first / width * part.bytes();
    e.stream().copy(columns_of(whole, first, count), columns_of(from, 0, count));
  }
}
/// part <- this rank's columns of `whole`; padding becomes zeros.
void take_own_columns(Exec& e, const Tensor& whole, const Tensor& part) {
  const Index width = part.shape[1], first = e.group(Role::tensor).rank() * width;
  const Index count = std::clamp<Index>(whole.shape[1] - first, 0, width);
  if (count < width) e.stream().zero(part.data, part.bytes());
  if (count > 0) e.stream().copy(columns_of(part, 0, count), columns_of(whole, first, count));
}

class SplitColumns final : public TensorCollective {
 public:
  explicit SplitColumns(Index ranks)
      : TensorCollective("split_columns", Placement::replicated, Placement::sharded, ranks) {}
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "split_columns' input");
    require(in[0].shape[1] % ranks() == 0, in[0].shape[1], " columns do not divide by ", ranks(),
            " tensor ranks");
    return {Spec({in[0].shape[0], in[0].shape[1] / ranks()}, in[0].dtype)};
  }
  double bytes(const Specs& in) const override { return 2 * part_bytes(in); }
  double backward_bytes(const Specs& in, const BackwardWork&) const override {
    return ring_bytes(part_bytes(in));
  }
  Index backward_workspace_bytes(const Specs& in) const override { return in[0].bytes(); }
  bool completes_gradient(int, Placement) const override { return true; }
  WorkParts backward_parts(const Specs& in, const BackwardWork&) const override {
    return one(Kind::all_gather, bytes_of(in[0]));
  }
  void forward(Exec& e) const override { take_own_columns(e, e.input(0), e.output(0)); }
  void backward(Exec& e) const override {
    gather_all_columns(e, e.grad_output(0), e.grad_input(0));
  }

 private:
  double part_bytes(const Specs& in) const {
    return bytes_of(in[0]) / static_cast<double>(ranks());
  }
};

class GatherColumns final : public TensorCollective {
 public:
  GatherColumns(Index ranks, Index columns)
      : TensorCollective("gather_columns", Placement::sharded, Placement::replicated, ranks),
        columns_(columns) {}
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "gather_columns' input");
    require(columns_ > 0 && columns_ <= in[0].shape[1] * ranks(), ranks(), " ranks with ", in[0],
            " each have no ", columns_, " columns");
    return {Spec({in[0].shape[0], columns_}, in[0].dtype)};
  }
  double bytes(const Specs& in) const override { return ring_bytes(bytes_of(in[0])); }
  double backward_bytes(const Specs& in, const BackwardWork&) const override {
    return 2 * bytes_of(in[0]);
  }
  Index forward_workspace_bytes(const Specs& in) const override { return ranks() * in[0].bytes(); }
  Index backward_workspace_bytes(const Specs&) const override { return 0; }
  WorkParts parts(const Specs& in) const override { return one(Kind::all_gather, all_parts(in)); }
  void forward(Exec& e) const override { gather_all_columns(e, e.input(0), e.output(0)); }
  void backward(Exec& e) const override { take_own_columns(e, e.grad_output(0), e.grad_input(0)); }

 private:
  Index columns_;
};

}  // namespace

Value enter(Value x) { return tensor_size(x) == 1 ? x : apply<Enter>({x}, tensor_size(x)); }
Value leave(Value x) { return tensor_size(x) == 1 ? x : apply<Leave>({x}, tensor_size(x)); }
Value gather_rows(Value x) {
  return tensor_size(x) == 1 ? x : apply<GatherRows>({x}, tensor_size(x));
}
Value scatter_rows(Value x) {
  return tensor_size(x) == 1 ? x : apply<ScatterRows>({x}, tensor_size(x));
}
Value split_columns(Value x) {
  return tensor_size(x) == 1 ? x : apply<SplitColumns>({x}, tensor_size(x));
}
Value gather_columns(Value x, Index columns) {
  if (tensor_size(x) == 1) return columns == x.shape()[1] ? x : contiguous(slice(x, 1, 0, columns));
  return apply<GatherColumns>({x}, tensor_size(x), columns);
}

Value enter_region(Value x) {
  if (tensor_size(x) == 1 || x.placement() == Placement::partial_gradient) return x;
  return x.placement() == Placement::sharded ? gather_rows(x) : enter(x);
}
Value leave_region(Value x, SequenceParallel sequence) {
  return sequence == SequenceParallel::on ? scatter_rows(x) : leave(x);
}

}  // namespace trireme
