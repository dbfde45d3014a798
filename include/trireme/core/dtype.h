// Element types of tensors, and `Index`, the type of every count and offset.
#pragma once

#include <cstdint>
#include <ostream>

namespace trireme {

using Index = std::int64_t;

enum class DType : std::uint8_t { f32, bf16, f64, i32, i64, u8 };

Index size_bytes(DType dtype);
const char* name(DType dtype);
bool is_floating(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

}  // namespace trireme
