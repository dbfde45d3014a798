// LayerNorm (Ba, Kiros, Hinton 2016, arXiv:1607.06450) and RMSNorm (Zhang, Sennrich 2019, arXiv:1910.07467) over the
// last dim, each optionally fused with the residual addition in front of it.
#pragma once

#include "trireme/core/device.h"
#include "trireme/kernels/write.h"

namespace trireme {

enum class NormKind { layer, rms };

/// s = x + delta (or x when delta is null); y = norm(s) * weight + bias.
struct NormForward {
  NormKind kind;
  Index rows, channels;
  float epsilon;
  const float* x;       // (rows, channels)
  const float* delta;   // (rows, channels); null: no residual
  const float* weight;  // (channels)
  const float* bias;    // (channels); null for rms or when there is none
  float* sum;           // (rows, channels) s; null when delta is null; may be x or delta
  float* y;             // (rows, channels)
  float* mean;          // (rows); null for rms
  float* rstd;          // (rows) 1 / standard deviation, or 1 / root mean square
};

/// dx = gradient through the norm, plus dsum when it is not null. Parameter gradients are added to.
struct NormBackward {
  NormKind kind;
  Index rows, channels;
  const float* s;  // what was normalised: x, or `sum` of the fused form
  const float* weight;
  const float* mean;  // null for rms
  const float* rstd;
  const float* dy;  // (rows, channels)
  const float*
      dsum;   // (rows, channels) gradient that arrives at s directly; null: none. May be dx.
  float* dx;  // (rows, channels); null: not wanted
  Write write_dx = Write::assign;
  float* dweight;   // (channels), added to; null: not wanted
  float* dbias;     // (channels), added to; null: none or not wanted
  void* workspace;  // workspace_bytes(rows, channels, threads or blocks)
};

struct NormKernels {
  void (*forward)(Stream&, const NormForward&);
  void (*backward)(Stream&, const NormBackward&);
  Index (*backward_workspace_bytes)(Device&, Index rows, Index channels);
};

}  // namespace trireme
