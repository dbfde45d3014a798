// Products by oneDNN, on the calling thread alone. Nothing else of trireme knows oneDNN.
#pragma once

#include "trireme/kernels/gemm.h"

namespace trireme {

/// All f32; without bias. k >= 1.
void onednn_sgemm(const Gemm& p);

/// By the matmul primitive, with bias, in the types of `p`. k >= 1. Throws: Error where oneDNN does not have them (bf16 on AVX2).
void onednn_matmul(const Gemm& p);

/// Has oneDNN bf16 products in hardware here (AVX-512 bf16)?
bool onednn_has_bf16();

}  // namespace trireme
