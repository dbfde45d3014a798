// Kernels: the functions of a device, one table for each family of kernels. Every op of trireme is
// built on these; kernels/cpu and kernels/cuda fill the tables, and the two agree within a stated
// tolerance. Include kernels/FAMILY.h to call a family.
//
// One rule governs every function: forward assigns its results. Backward assigns activation
// gradients, or adds to them where its arguments say `Write::add`, and always adds to parameter
// gradients. Null pointers are legal only where a comment says so. Functions never allocate;
// launchers check shapes, then launch on the given stream.
#pragma once

namespace trireme {

struct ActivationKernels;
struct ArithmeticKernels;
struct AttentionKernels;
struct CrossEntropyKernels;
struct ElementwiseKernels;
struct EmbeddingKernels;
struct GemmKernels;
struct HashKernels;
struct NormKernels;
struct OptimizerKernels;
struct RotaryKernels;

/// The families. This file is the only list of them.
struct Kernels {
  const ActivationKernels& activation;
  const ArithmeticKernels& arithmetic;
  const AttentionKernels& attention;
  const CrossEntropyKernels& cross_entropy;
  const ElementwiseKernels& elementwise;
  const EmbeddingKernels& embedding;
  const GemmKernels& gemm;
  const HashKernels& hash;
  const NormKernels& norm;
  const OptimizerKernels& optimizer;
  const RotaryKernels& rotary;
};

/// For devices: Kernels in which each family is the table returned by table_of<Family>().
template <class TableOf>
Kernels make_kernels(TableOf table_of) {
  return {.activation = table_of.template operator()<ActivationKernels>(),
          .arithmetic = table_of.template operator()<ArithmeticKernels>(),
          .attention = table_of.template operator()<AttentionKernels>(),
          .cross_entropy = table_of.template operator()<CrossEntropyKernels>(),
          .elementwise = table_of.template operator()<ElementwiseKernels>(),
          .embedding = table_of.template operator()<EmbeddingKernels>(),
          .gemm = table_of.template operator()<GemmKernels>(),
          .hash = table_of.template operator()<HashKernels>(),
          .norm = table_of.template operator()<NormKernels>(),
          .optimizer = table_of.template operator()<OptimizerKernels>(),
          .rotary = table_of.template operator()<RotaryKernels>()};
}

}  // namespace trireme
