// Bf16: the upper half of a float, for storage. Arithmetic is done in float.
#pragma once

#include <bit>

#include "trireme/core/dtype.h"

namespace trireme {

struct Bf16 {
  std::uint16_t bits;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::bf16;
};

inline float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// To nearest, ties to even, as GPUs round; a NaN stays one.
inline Bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace trireme
