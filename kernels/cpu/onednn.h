// Products by oneDNN, on the calling thread alone. Nothing else of trireme knows oneDNN.
#pragma once

#include <memory>

#include "trireme/kernels/device.h"
#include "trireme/kernels/gemm.h"

namespace trireme {

/// All f32; without bias. k >= 1.
void onednn_sgemm(const Gemm& p);

/// Keeps oneDNN from instructions wider than those of `set`, in the whole process; `best` leaves it
/// alone. Throws: Error when oneDNN is in use already, with wider ones.
void limit_onednn(InstructionSet set);

/// Has oneDNN bf16 products in hardware here (AVX-512 bf16)?
bool onednn_has_bf16();

/// Products by the matmul primitive, with bias, in the types of the product. Descriptors and code
/// of each shape are made once and kept: by `prepare`, or by the first `run`. Shape means sizes,
/// leading dimensions, transposes, types, `write`, and whether there is a bias; pointers do not
/// count. k >= 1 throughout. The threads of one pool may run products of one object at the same
/// time, each with a scratchpad of its own. Throws: Error where oneDNN has no such product (bf16 on
/// AVX2).
class OnednnProducts {
 public:
  /// `threads`: of the pool.
  explicit OnednnProducts(int threads);
  ~OnednnProducts();

  void prepare(const Gemm& p);
  /// What `run` wants beside the operands, whatever `write` and `bias` are.
  Index scratchpad_bytes(const Gemm& p);
  /// `scratchpad`: scratchpad_bytes(p), aligned to 64; null where that is 0.
  void run(const Gemm& p, void* scratchpad);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
