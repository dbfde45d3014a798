// Which kernels attention runs on a GPU: a function of the problem and the device, so that all
// ranks make the same choice.
#include "trireme/kernels/attention_choice.h"

#include "trireme/core/error.h"

namespace trireme {

const char* name(AttentionChoice choice) {
  switch (choice) {
    case AttentionChoice::automatic:
      return "auto";
    case AttentionChoice::simt:
      return "simt";
    case AttentionChoice::mma:
      return "mma";
  }
  return "";
}

AttentionChoice attention_choice(const AttentionProblem& p, AttentionChoice asked) {
  const bool head = p.head_dim == 32 || p.head_dim == 64 || p.head_dim == 96 || p.head_dim == 128;
  if (asked == AttentionChoice::mma) {
    require(p.dtype == DType::bf16, "attention by mma is for bf16, got ", p.dtype,
            ": use --bf16, or --attention auto");
    require(head, "attention by mma takes heads of 32, 64, 96 or 128 elements, got ", p.head_dim,
            ": --attention auto takes others");
    require(p.capability >= first_mma_capability, "attention by mma needs compute capability ",
            first_mma_capability / 10, ".", first_mma_capability % 10, ", this GPU has ",
            p.capability / 10, ".", p.capability % 10, ": use --attention auto");
  }
  if (asked != AttentionChoice::automatic) return asked;
  const bool can = p.dtype == DType::bf16 && head && p.capability >= first_mma_capability;
  return can ? AttentionChoice::mma : AttentionChoice::simt;
}

}  // namespace trireme
