// Plain fp64 references and data for the tests of nn.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "trireme/core/random.h"
#include "trireme/core/tensor.h"

namespace trireme {

inline std::vector<float> random_floats(const char* name, Index count, float scale = 1) {
  const Random random = random_for(3, name);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = scale * random.normal(i);
  return values;
}
inline std::vector<std::int32_t> random_tokens(const char* name, Index count, Index vocabulary) {
  const Random random = random_for(5, name);
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(random.bits(i) % static_cast<std::uint32_t>(vocabulary));
  return values;
}
inline Tensor tensor_of(std::vector<float>& values, Shape shape) {
  return {values.data(), shape, DType::f32};
}
inline Tensor tensor_of(std::vector<std::int32_t>& values, Shape shape) {
  return {values.data(), shape, DType::i32};
}

}  // namespace trireme
