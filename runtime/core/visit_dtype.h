// visit: from a DType to the type of the host that holds its elements.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"

namespace trireme {

/// f(T{}) with T, the type of the host that holds elements of `dtype`.
template <class F>
void visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(Bf16{});
    case DType::f64:
      return f(double{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
      return f(std::uint8_t{});
  }
  throw Error(str("no element type ", static_cast<int>(dtype)));
}

template <class T>
double to_double(T x) {
  return static_cast<double>(x);
}
inline double to_double(Bf16 x) { return static_cast<double>(to_float(x)); }

}  // namespace trireme
