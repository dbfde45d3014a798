// Arrays of bf16 as floats and back, for code beside the loops of cpu/simd. The loops themselves load and store bf16 as
// they do floats (cpu/simd/each.h), so that no array of floats is needed there.
#pragma once

#include "trireme/core/bf16.h"

namespace trireme {

inline void widen(const Bf16* from, Index count, float* to) {
  for (Index i = 0; i < count; ++i) to[i] = to_float(from[i]);
}
/// To nearest, ties to even.
inline void narrow(const float* from, Index count, Bf16* to) {
  for (Index i = 0; i < count; ++i) to[i] = to_bf16(from[i]);
}

}  // namespace trireme
