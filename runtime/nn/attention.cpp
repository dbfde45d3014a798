// Causal attention. Kept for backward: the projections, the result and one logsumexp a head and
// token.
#include "trireme/kernels/attention.h"

#include "trireme/nn/attention.h"

#include "runtime/nn/op_helpers.h"

namespace trireme {
namespace {

using namespace nn;

struct AttentionWorkspace {
  Index forward, backward;
};

class CausalAttention final : public KernelOp {
 public:
  CausalAttention(AttentionShape shape, AttentionChoice choice, AttentionWorkspace workspace)
      : shape_(shape), choice_(choice), workspace_(workspace) {}
  std::string name() const override { return "causal_attention"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "attention's input");
    return {Spec({in[0].shape[0], shape_.query_heads * shape_.head_dim}, in[0].dtype),
            Output::side(Spec({shape_.batch, shape_.query_heads, shape_.sequence}))};
  }
  Saved saved(const BackwardWork&) const override {
    return Saved::input(0) | Saved::output(0) | Saved::output(1);
  }
  bool accumulates(int) const override { return true; }
  Index forward_workspace_bytes(const Specs&) const override { return workspace_.forward; }
  Index backward_workspace_bytes(const Specs&) const override { return workspace_.backward; }
  /// Two products of sequence x sequence x head_dim, half of each masked away.
  double flops(const Specs&) const override {
    return 2.0 * static_cast<double>(shape_.batch * shape_.query_heads * shape_.head_dim) *
           static_cast<double>(shape_.sequence * (shape_.sequence + 1));
  }
  /// Five: the scores again, and the gradients of values, of probabilities, of queries and of keys.
  double backward_flops(const Specs& in, const BackwardWork&) const override {
    return 2.5 * flops(in);
  }
  WorkParts parts(const Specs& in) const override { return attention_parts(in, flops(in)); }
  WorkParts backward_parts(const Specs& in, const BackwardWork& work) const override {
    return attention_parts(in, backward_flops(in, work));
  }

  void forward(Exec& e) const override {
    e.stream().kernels().attention.forward(e.stream(), {.shape = shape_,
                                                        .qkv = e.input(0).data,
                                                        .y = e.output(0).data,
                                                        .logsumexp = e.output(1).as<float>(),
                                                        .workspace = e.workspace(),
                                                        .dtype = e.input(0).dtype,
                                                        .choice = choice_});
  }
  void backward(Exec& e) const override {
    e.stream().kernels().attention.backward(e.stream(), {.shape = shape_,
                                                         .qkv = e.input(0).data,
                                                         .y = e.output(0).data,
                                                         .logsumexp = e.output(1).as<float>(),
                                                         .dy = e.grad_output(0).data,
                                                         .dqkv = e.grad_input(0).data,
                                                         .write = write_of(e, 0),
                                                         .workspace = e.workspace(),
                                                         .dtype = e.input(0).dtype,
                                                         .choice = choice_});
  }

 private:
  WorkParts attention_parts(const Specs& in, double flops) const {
    return {{},
            {{shape_.batch, shape_.sequence, shape_.query_heads, shape_.kv_heads, shape_.head_dim,
              in[0].dtype, flops}},
            {}};
  }

  AttentionShape shape_;
  AttentionChoice choice_;
  AttentionWorkspace workspace_;
};

AttentionShape shape_of(const Spec& qkv, Index sequence, const AttentionHeads& heads) {
  require_rows(qkv, "attention's input");
  require(heads.kv > 0 && heads.query > 0 && heads.query % heads.kv == 0, heads.query,
          " query heads do not share ", heads.kv, " key-value heads evenly");
  const Index columns = (heads.query + 2 * heads.kv) * heads.head_dim;
  require(sequence > 0 && qkv.shape[0] % sequence == 0 && qkv.shape[1] == columns,
          "attention over sequences of ", sequence, " with ", heads.query, " query and ", heads.kv,
          " key-value heads of ", heads.head_dim, " reads rows of ", columns, " channels, not ",
          qkv);
  return {qkv.shape[0] / sequence, sequence, heads.query, heads.kv, heads.head_dim};
}

}  // namespace

Value causal_attention(Value qkv, Index sequence, const AttentionHeads& heads,
                       AttentionChoice choice) {
  const AttentionShape shape = shape_of(qkv.spec(), sequence, heads);
  const DeviceTraits& device = qkv.graph().device();
  const DType dtype = qkv.spec().dtype;
  return apply<CausalAttention>(
      {qkv}, shape, choice,
      AttentionWorkspace{attention_forward_workspace_bytes(device, shape, dtype, choice),
                         attention_backward_workspace_bytes(device, shape, dtype, choice)});
}

}  // namespace trireme
