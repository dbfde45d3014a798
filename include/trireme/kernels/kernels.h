// Kernels: the function table of a device. Every op of trireme is built on these; kernels/cpu and kernels/cuda fill
// one table each, and the two agree within a stated tolerance (invariant 7 of
// docs/concepts/architecture.md).
//
// One rule governs every entry: forward assigns its results. Backward assigns activation gradients, or adds to them
// where its arguments say `Write::add`, and always adds to parameter gradients. Null pointers are legal only where a
// comment says so. Entries never allocate; launchers check shapes, then launch on the given stream.
#pragma once

#include "trireme/kernels/activation.h"
#include "trireme/kernels/attention.h"
#include "trireme/kernels/cross_entropy.h"
#include "trireme/kernels/elementwise.h"
#include "trireme/kernels/embedding.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/norm.h"
#include "trireme/kernels/optimizer.h"
#include "trireme/kernels/rotary.h"

namespace trireme {

struct Kernels {
  GemmKernels gemm;
  NormKernels norm;
  ActivationKernels activation;
  RotaryKernels rotary;
  EmbeddingKernels embedding;
  AttentionKernels attention;
  CrossEntropyKernels cross_entropy;
  ElementwiseKernels elementwise;
  OptimizerKernels optimizer;
};

}  // namespace trireme
