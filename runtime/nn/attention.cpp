// Causal attention. Kept for backward: the projections, the result and one logsumexp a head and
// token.
#include "trireme/nn/attention.h"

#include "runtime/nn/op_helpers.h"
#include "runtime/nn/workspace.h"

namespace trireme {
namespace {

using namespace nn_detail;

class CausalAttention final : public Op {
 public:
  CausalAttention(Index sequence, AttentionHeads heads) : sequence_(sequence), heads_(heads) {}
  std::string name() const override { return "causal_attention"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "attention's input");
    require(heads_.kv > 0 && heads_.query > 0 && heads_.query % heads_.kv == 0, heads_.query,
            " query heads do not share ", heads_.kv, " key-value heads evenly");
    const Index columns = (heads_.query + 2 * heads_.kv) * heads_.head_dim;
    require(sequence_ > 0 && in[0].shape[0] % sequence_ == 0 && in[0].shape[1] == columns,
            "attention over sequences of ", sequence_, " with ", heads_.query, " query and ",
            heads_.kv, " key-value heads of ", heads_.head_dim, " reads rows of ", columns,
            " channels, not ", in[0]);
    const AttentionShape shape = shape_of(in[0].shape);
    return {Spec({in[0].shape[0], heads_.query * heads_.head_dim}),
            Output::side(Spec({shape.batch, shape.query_heads, shape.sequence}))};
  }
  Saved saved() const override { return Saved::input(0) | Saved::output(0) | Saved::output(1); }
  bool accumulates(int) const override { return true; }
  Index forward_workspace_bytes(const Specs& in) const override {
    return workspace_bytes([&](const Kernels& kernels, Device& device) {
      return kernels.attention.forward_workspace_bytes(device, shape_of(in[0].shape));
    });
  }
  Index backward_workspace_bytes(const Specs& in) const override {
    return workspace_bytes([&](const Kernels& kernels, Device& device) {
      return kernels.attention.backward_workspace_bytes(device, shape_of(in[0].shape));
    });
  }
  /// Two products of sequence x sequence x head_dim, half of each masked away.
  double flops(const Specs& in) const override {
    return 2.0 * static_cast<double>(in[0].shape[0] * heads_.query * heads_.head_dim) *
           static_cast<double>(sequence_ + 1);
  }

  void forward(Exec& e) const override {
    e.stream().kernels().attention.forward(e.stream(), {.shape = shape_of(e.input(0).shape),
                                                        .qkv = e.input(0).as<float>(),
                                                        .y = e.output(0).as<float>(),
                                                        .logsumexp = e.output(1).as<float>(),
                                                        .workspace = e.workspace()});
  }
  void backward(Exec& e) const override {
    e.stream().kernels().attention.backward(e.stream(), {.shape = shape_of(e.input(0).shape),
                                                         .qkv = e.input(0).as<float>(),
                                                         .y = e.output(0).as<float>(),
                                                         .logsumexp = e.output(1).as<float>(),
                                                         .dy = e.grad_output(0).as<float>(),
                                                         .dqkv = e.grad_input(0).as<float>(),
                                                         .write = write_of(e, 0),
                                                         .workspace = e.workspace()});
  }

 private:
  AttentionShape shape_of(const Shape& qkv) const {
    return {qkv[0] / sequence_, sequence_, heads_.query, heads_.kv, heads_.head_dim};
  }
  Index sequence_;
  AttentionHeads heads_;
};

}  // namespace

Value causal_attention(Value qkv, Index sequence, const AttentionHeads& heads) {
  return apply<CausalAttention>({qkv}, sequence, heads);
}

}  // namespace trireme
