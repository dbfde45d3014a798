// Products by plain loops, in place of oneDNN (kernels/cpu/onednn.h), for machines that have none:
// slow, but right. Only fp32 products get here, since oneDNN's instructions for bf16 are missing,
// too.
#include "trireme/core/error.h"
#include "trireme/kernels/gemm.h"

#include "kernels/cpu/onednn.h"

namespace trireme::kernels {

/// Sums are fp64.
void onednn_sgemm(const Gemm& p) {
  const auto* const a = static_cast<const float*>(p.a);
  const auto* const b = static_cast<const float*>(p.b);
  auto* const c = static_cast<float*>(p.c);
  const bool a_turned = p.transpose_a == Transpose::yes, b_turned = p.transpose_b == Transpose::yes;
  for (Index row = 0; row < p.m; ++row)
    for (Index column = 0; column < p.n; ++column) {
      double sum = p.write == Write::add ? static_cast<double>(c[row * p.ldc + column]) : 0;
      for (Index i = 0; i < p.k; ++i)
        sum += static_cast<double>(a[a_turned ? i * p.lda + row : row * p.lda + i]) *
               static_cast<double>(b[b_turned ? column * p.ldb + i : i * p.ldb + column]);
      c[row * p.ldc + column] = static_cast<float>(sum);
    }
}

void limit_onednn(InstructionSet) {}
bool onednn_has_bf16() { return false; }

struct OnednnProducts::State {};
OnednnProducts::OnednnProducts(int) {}
OnednnProducts::~OnednnProducts() = default;
void OnednnProducts::prepare(const Gemm&) {
  throw Error("this build has no bf16 products on CPUs");
}
Index OnednnProducts::scratchpad_bytes(const Gemm&) { return 0; }
void OnednnProducts::run(const Gemm& p, void*) { prepare(p); }

}  // namespace trireme::kernels
