// LayerNorm (Ba, Kiros, Hinton 2016, arXiv:1607.06450) and RMSNorm (Zhang, Sennrich 2019,
// arXiv:1910.07467) over the last dim, each optionally fused with the residual addition in front of
// it.
#pragma once

#include "trireme/core/device.h"
#include "trireme/core/dtype.h"
#include "trireme/kernels/write.h"

namespace trireme {

enum class NormKind { layer, rms };

/// s = x + delta (or x when delta is null); y = norm(s) * weight + bias. s is rounded to `dtype`
/// before it is normalised, so the fused form equals the two steps. `void*`: arrays of `dtype`, f32
/// or bf16; statistics are fp32.
struct NormForward {
  NormKind kind;
  Index rows, channels;
  float epsilon;
  const void* x;       // (rows, channels)
  const void* delta;   // (rows, channels); null: no residual
  const void* weight;  // (channels)
  const void* bias;    // (channels); null for rms or when there is none
  void* sum;           // (rows, channels) s; null when delta is null; may be x or delta
  void* y;             // (rows, channels)
  float* mean;         // (rows); null for rms
  float* rstd;         // (rows) 1 / standard deviation, or 1 / root mean square
  DType dtype = DType::f32;
};

/// dx = gradient through the norm, plus dsum when it is not null. Parameter gradients are fp32 and
/// added to.
struct NormBackward {
  NormKind kind;
  Index rows, channels;
  const void* s;  // what was normalised: x, or `sum` of the fused form
  const void* weight;
  const float* mean;  // null for rms
  const float* rstd;
  const void* dy;    // (rows, channels)
  const void* dsum;  // (rows, channels) gradient that arrives at s directly; null: none. May be dx.
  void* dx;          // (rows, channels); null: not wanted
  Write write_dx = Write::assign;
  float* dweight;   // (channels), added to; null: not wanted
  float* dbias;     // (channels), added to; null: none or not wanted
  void* workspace;  // norm_backward_workspace_bytes()
  DType dtype = DType::f32;
};

struct NormKernels {
  void (*forward)(Stream&, const NormForward&);
  void (*backward)(Stream&, const NormBackward&);
};

/// Bytes of NormBackward::workspace.
Index norm_backward_workspace_bytes(const DeviceTraits&, Index rows, Index channels);

}  // namespace trireme
