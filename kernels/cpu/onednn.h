// Products by oneDNN, on the calling thread only. Nothing else in trireme uses oneDNN.
#pragma once

#include <memory>

#include "trireme/kernels/device.h"

namespace trireme {
struct Gemm;
}

namespace trireme::kernels {

/// All f32; without bias. k >= 1.
void onednn_sgemm(const Gemm& p);

/// Keeps oneDNN from using instructions wider than those of `set`, in the whole process; `best`
/// changes nothing. Throws: Error when oneDNN already uses wider ones.
void limit_onednn(InstructionSet set);

/// Whether oneDNN has bf16 products in hardware on this machine (AVX-512 bf16).
bool onednn_has_bf16();

/// Products by the matmul primitive, with bias, in the types of the product. Descriptors and code
/// of each shape are made once and kept: by `prepare`, or by the first `run`. Shape means sizes,
/// leading dimensions, transposes, types, `write`, and whether there is a bias; pointers do not
/// count. k >= 1 throughout. The threads of one pool may run products of one object at the same
/// time, each with a scratchpad of its own. Throws: Error where oneDNN has no such product (bf16 on
/// AVX2).
class OnednnProducts {
 public:
  /// `threads`: of the pool; 0 where none of them will run.
  explicit OnednnProducts(int threads);
  ~OnednnProducts();

  void prepare(const Gemm& p);
  /// What `run` needs besides the operands, whatever `write` and `bias` are.
  Index scratchpad_bytes(const Gemm& p);
  /// `scratchpad`: scratchpad_bytes(p), aligned to 64; null where that is 0.
  void run(const Gemm& p, void* scratchpad);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::kernels
