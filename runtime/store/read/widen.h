// Numbers in bf16 that become f32 where they lie.
//
// Not installed; modules above may include it.
#pragma once

#include <cstring>

#include "trireme/core/bf16.h"
#include "trireme/core/dtype.h"

namespace trireme::store {

/// `count` bf16 numbers, packed at the begin of `data`, become as many f32 numbers.
inline void widen_in_place(void* data, Index count) {
  auto* bytes = static_cast<std::byte*>(data);
  for (Index i = count - 1; i >= 0; --i) {
    Bf16 rounded;
    std::memcpy(&rounded, bytes + i * static_cast<Index>(sizeof rounded), sizeof rounded);
    const float value = to_float(rounded);
    std::memcpy(bytes + i * static_cast<Index>(sizeof value), &value, sizeof value);
  }
}

}  // namespace trireme::store
