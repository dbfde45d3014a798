// Tensors with strides: copy, convert, add and the search for what is not finite.
#include "kernels/cpu/strided.h"

#include <atomic>
#include <cmath>
#include <cstring>

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"

#include "kernels/cpu/cpu_device.h"
#include "kernels/strided_rows.h"

namespace trireme::kernels {

namespace {

// f(offset in a, offset in b, elements) for parts of rows, divided among the threads.
template <class F>
void for_rows(Stream& stream, const StridedRows& rows, F f) {
  if (rows.count() == 1)
    return parallel_for(stream, rows.length, grain_elements, [&](Index begin, Index end) {
      f(begin * rows.step_a, begin * rows.step_b, end - begin);
    });
  parallel_for(stream, rows.count(), grain_rows(rows.length), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const auto [of_a, of_b] = rows.offsets(row);
      f(of_a, of_b, rows.length);
    }
  });
}

template <class T>
void assign(Stream& stream, const StridedRows& rows, void* to, const void* from) {
  for_rows(stream, rows, [&](Index at, Index from_at, Index count) {
    T* y = static_cast<T*>(to) + at;
    const T* x = static_cast<const T*>(from) + from_at;
    if (rows.step_a == 1 && rows.step_b == 1)
      std::memmove(y, x, static_cast<std::size_t>(count) * sizeof(T));
    else
      for (Index i = 0; i < count; ++i) y[i * rows.step_a] = x[i * rows.step_b];
  });
}

// What arithmetic is done in.
float wide(Bf16 x) { return to_float(x); }
float wide(float x) { return x; }
double wide(double x) { return x; }
template <class T, class Wide>
T rounded(Wide x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return to_bf16(x);
  else
    return static_cast<T>(x);
}

template <class To, class From>
void convert(Stream& stream, const StridedRows& rows, void* to, const void* from, Write write) {
  for_rows(stream, rows, [&](Index at, Index from_at, Index count) {
    To* y = static_cast<To*>(to) + at;
    const From* x = static_cast<const From*>(from) + from_at;
    if (write == Write::add)
      for (Index i = 0; i < count; ++i)
        y[i * rows.step_a] = rounded<To>(wide(y[i * rows.step_a]) + wide(x[i * rows.step_b]));
    else
      for (Index i = 0; i < count; ++i) y[i * rows.step_a] = rounded<To>(wide(x[i * rows.step_b]));
  });
}

void convert(Stream& stream, const StridedRows& rows, const Tensor& to, const Tensor& from,
             Write write) {
  const bool from_bf16 = from.dtype == DType::bf16;
  switch (to.dtype) {
    case DType::f64:
      return convert<double, double>(stream, rows, to.data, from.data, write);
    case DType::bf16:
      return from_bf16 ? convert<Bf16, Bf16>(stream, rows, to.data, from.data, write)
                       : convert<Bf16, float>(stream, rows, to.data, from.data, write);
    case DType::f32:
      return from_bf16 ? convert<float, Bf16>(stream, rows, to.data, from.data, write)
                       : convert<float, float>(stream, rows, to.data, from.data, write);
    case DType::i32:
    case DType::i64:
    case DType::u8:
      throw Error(str("no sum or conversion to elements of ", to.dtype));
  }
}

template <class T>
bool finite(Stream& stream, const Tensor& x) {
  const StridedRows rows = strided_rows(x, x);
  std::atomic<bool> all_finite = true;
  for_rows(stream, rows, [&](Index at, Index, Index count) {
    const T* p = static_cast<const T*>(x.data) + at;
    bool good = true;
    if constexpr (std::is_same_v<T, float>) {
      if (rows.step_a == 1) good = loops_of<ArrayLoops>(stream).finite(p, 0, count);
    }
    if (!std::is_same_v<T, float> || rows.step_a != 1)
      for (Index i = 0; i < count; ++i) good = good && std::isfinite(wide(p[i * rows.step_a]));
    if (!good) all_finite.store(false, std::memory_order_relaxed);
  });
  return all_finite.load(std::memory_order_relaxed);
}

}  // namespace

void copy_strided(Stream& stream, const Tensor& to, const Tensor& from, Write write) {
  check_copy(to, from, write);
  if (to.count() == 0) return;
  const StridedRows rows = strided_rows(to, from);
  if (write == Write::add || to.dtype != from.dtype) return convert(stream, rows, to, from, write);
  switch (size_bytes(to.dtype)) {
    case 1:
      return assign<std::uint8_t>(stream, rows, to.data, from.data);
    case 2:
      return assign<std::uint16_t>(stream, rows, to.data, from.data);
    case 4:
      return assign<std::uint32_t>(stream, rows, to.data, from.data);
    case 8:
      return assign<std::uint64_t>(stream, rows, to.data, from.data);
    default:
      throw Error(str("copy of elements of ", size_bytes(to.dtype), " bytes"));
  }
}

bool CpuStream::wait_and_check_finite(const Tensor& x) {
  if (x.count() == 0) return true;
  switch (x.dtype) {
    case DType::f32:
      return finite<float>(*this, x);
    case DType::f64:
      return finite<double>(*this, x);
    case DType::bf16:
      return finite<Bf16>(*this, x);
    case DType::i32:
    case DType::i64:
    case DType::u8:
      return true;
  }
  return true;
}

}  // namespace trireme::kernels
