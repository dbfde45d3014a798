// Which of its attention kernels a GPU runs.
#pragma once

#include <cstdint>

#include "trireme/core/dtype.h"

namespace trireme {

/// Which kernels a GPU runs: `mma` on tensor cores (bf16), `simt` on ordinary cores (any dtype);
/// `automatic`: mma where it can. A CPU has one kind and takes `automatic` only.
enum class AttentionChoice : std::uint8_t { automatic, simt, mma };
const char* name(AttentionChoice choice);

/// What a choice depends on. `capability`: of the GPU, 80 for 8.0.
struct AttentionProblem {
  DType dtype;
  Index head_dim, sequence;
  int capability;
};
/// Returns `asked`, or for `automatic` the kernels that run: never `automatic`. Ranks with the same
/// problem get the same result. Throws: Error that says why `mma` cannot run.
AttentionChoice attention_choice(const AttentionProblem& problem, AttentionChoice asked);
inline constexpr int first_mma_capability = 80;

}  // namespace trireme
