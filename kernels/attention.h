// What the versions of attention share: the checks of their arguments, and the inner loops that
// each instruction set of CPUs fills in (kernels/cpu/loops.h).
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/attention.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_attention(const AttentionShape& s) {
  require(s.batch >= 0 && s.sequence >= 1 && s.head_dim >= 1, "attention over batch ", s.batch,
          ", sequence ", s.sequence, ", head_dim ", s.head_dim);
  require(s.kv_heads >= 1 && s.query_heads >= s.kv_heads && s.query_heads % s.kv_heads == 0,
          s.query_heads, " query heads cannot share ", s.kv_heads, " key and value heads evenly");
}

/// Throws: Error when no kernel of GPUs takes this attention.
void check_gpu_attention(const AttentionShape& s, DType dtype);
/// attention_choice on this GPU.
AttentionChoice gpu_attention_choice(const DeviceTraits& gpu, const AttentionShape& s, DType dtype,
                                     AttentionChoice asked);

/// One (batch, kv head) of attention. `workspace` holds the bytes that the functions below ask for.
struct AttentionLoops {
  static const AttentionLoops portable, avx2, avx512;

  void (*forward)(const AttentionForward&, Index batch, Index kv_head, std::byte* workspace);
  void (*backward)(const AttentionBackward&, Index batch, Index kv_head, std::byte* workspace);
  Index (*forward_bytes)(const AttentionShape&);
  Index (*backward_bytes)(const AttentionShape&);
};

}  // namespace trireme::kernels
