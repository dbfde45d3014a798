// Losses in fp64. Cross-entropy never stores probabilities: forward keeps one logsumexp a row,
// backward turns the logits into their gradient where they lie.
#include "trireme/nn/loss.h"

#include "trireme/kernels/cross_entropy.h"
#include "trireme/kernels/elementwise.h"

#include "runtime/nn/op_helpers.h"
#include "runtime/nn/vocabulary.h"

namespace trireme {
namespace {

using namespace nn;

const Spec scalar_loss(Shape{}, DType::f64);

/// Inputs: logits, targets. Outputs: loss, logsumexp of each row.
class CrossEntropy final : public KernelOp {
 public:
  explicit CrossEntropy(VocabularyPart part) : part_(part) {}
  std::string name() const override { return "cross_entropy"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "the logits");
    require(in[1].dtype == DType::i32 && in[1].shape.count() == in[0].shape[0],
            "targets are i32, one a row of the logits ", in[0], ", not ", in[1]);
    part_.require_columns(in[0].shape[1]);
    return {scalar_loss, Output::side(Spec({in[0].shape[0]}))};
  }
  Saved saved(const BackwardWork&) const override {
    return Saved::input(0) | Saved::input(1) | Saved::output(1);
  }
  Sharing sharing() const override { return Sharing().gradient_over_input(0, 0); }
  bool differentiable(int input) const override { return input == 0; }
  Index forward_workspace_bytes(const Specs& in) const override {
    return partials_bytes(part_, in[0].shape[0]);
  }
  Index backward_workspace_bytes(const Specs&) const override { return 0; }
  double flops(const Specs& in) const override {
    return 8.0 * static_cast<double>(in[0].shape.count());
  }
  WorkParts parts(const Specs& in) const override {
    return {{}, {}, exchanged_partials(part_, in[0].shape[0])};
  }

  void forward(Exec& e) const override {
    sum_loss(e.stream(), e.group(Role::tensor), part_, rows_of(e),
             static_cast<RowPartial*>(e.workspace()), e.output(0).as<double>());
  }
  void backward(Exec& e) const override {
    differentiate_logits(e.stream(), part_, rows_of(e), e.grad_output(0).as<double>(),
                         e.grad_input(0).data);
  }
  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    require(in[0] == (part_.ranks > 1 ? Placement::sharded : Placement::replicated) &&
                in[1] == Placement::replicated,
            "cross_entropy takes replicated or sharded logits and replicated targets, not ", in[0],
            " and ", in[1]);
    return Placement::replicated;
  }

 private:
  static LogitRows rows_of(const Exec& e) {
    return {e.input(0), e.input(1).as<std::int32_t>(), e.output(1).as<float>()};
  }
  VocabularyPart part_;
};

class SquaredError final : public KernelOp {
 public:
  std::string name() const override { return "squared_error"; }
  Outputs infer(const Specs& in) const override {
    require(in[0].shape == in[1].shape && is_stored(in[0].dtype) && in[1].dtype == in[0].dtype,
            "compares f32 or bf16 values of one shape, not ", in[0], " and ", in[1]);
    return {scalar_loss};
  }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  bool differentiable(int input) const override { return input == 0; }
  bool accumulates(int) const override { return true; }
  double flops(const Specs& in) const override {
    return 3.0 * static_cast<double>(in[0].shape.count());
  }
  void forward(Exec& e) const override {
    const Tensor& x = e.input(0);
    e.stream().kernels().elementwise.squared_error_forward(
        e.stream(), {x.count(), x.data, e.input(1).data, e.output(0).as<double>(), x.dtype});
  }
  void backward(Exec& e) const override {
    const Tensor& x = e.input(0);
    e.stream().kernels().elementwise.squared_error_backward(
        e.stream(), {x.count(), x.data, e.input(1).data, e.grad_output(0).as<double>(),
                     e.grad_input(0).data, write_of(e, 0), x.dtype});
  }
  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    require(in[0] == Placement::replicated && in[1] == Placement::replicated,
            "squared_error takes replicated values, not ", in[0], " and ", in[1],
            ": leave the tensor-parallel region first");
    return Placement::replicated;
  }
};

}  // namespace

Value cross_entropy(Value logits, Value targets, Index vocabulary) {
  return apply<CrossEntropy>({logits, targets}, vocabulary_part(logits, vocabulary));
}
Value squared_error(Value x, Value target) { return apply<SquaredError>({x, target}); }

}  // namespace trireme
