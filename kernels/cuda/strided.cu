// Tensors with strides: copy, convert, add, and the search for what is not finite. A block takes a
// row (or a part of a long one); where rows are packed and aligned, a thread takes up to 16 bytes
// at once.
#include <algorithm>

#include "kernels/cuda/gpu.cuh"
#include "kernels/cuda/strided.h"
#include "kernels/strided_rows.h"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

struct Assign {
  template <class T>
  __device__ void operator()(T& to, T from) const {
    to = from;
  }
};
struct Convert {
  template <class To, class From>
  __device__ void operator()(To& to, From from) const {
    to = from_float<To>(to_float(from));
  }
};
struct Accumulate {
  template <class To, class From>
  __device__ void operator()(To& to, From from) const {
    to = from_float<To>(to_float(to) + to_float(from));
  }
  __device__ void operator()(double& to, double from) const { to += from; }
};

/// `width` elements at once, which lie together in both tensors; or one.
template <int width, class To, class From, class Op>
__global__ void __launch_bounds__(elementwise_threads)
    strided_kernel(StridedRows rows, Index row_count, To* to, const From* from, Op op) {
  for (Index row = blockIdx.y; row < row_count; row += gridDim.y) {
    const auto [to_row, from_row] = rows.offsets(row);
    To* y = to + to_row;
    const From* x = from + from_row;
    for (Index i = global_thread() * width; i < rows.length; i += global_threads() * width) {
      const Vec<From, width> v = load<width>(x + i * rows.step_b);
      Vec<To, width> result = load<width>(y + i * rows.step_a);  // left out where op assigns
      for (int k = 0; k < width; ++k) op(result.values[k], v.values[k]);
      store_global(y + i * rows.step_a, result);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(elementwise_threads)
    find_not_finite_kernel(StridedRows rows, Index row_count, const T* from, int* found) {
  bool bad = false;
  for (Index row = blockIdx.y; row < row_count; row += gridDim.y) {
    const T* x = from + rows.offsets(row).a;
    for (Index i = global_thread(); i < rows.length; i += global_threads()) {
      const T value = x[i * rows.step_a];
      bad = bad || !(to_double(value) - to_double(value) == 0);  // infinite or NaN
    }
  }
  if (bad) *found = 1;  // all threads write the same value
}

/// Columns of blocks along a row, rows along y: rows are short more often than not.
dim3 grid_of(Stream& stream, const StridedRows& rows, int width = 1) {
  constexpr Index most_rows = 65535;
  const Index row_count = rows.count();
  return {blocks_for(stream, (rows.length + width - 1) / width),
          static_cast<unsigned>(row_count < most_rows ? row_count : most_rows), 1};
}

/// Whether all rows fall into vecs of `width` elements that lie together, at multiples of their
/// bytes.
template <int width, class To, class From>
bool in_chunks(const StridedRows& rows, const To* to, const From* from) {
  const auto aligned = [](const auto* x) {
    return reinterpret_cast<std::uintptr_t>(x) % (width * sizeof(*x)) == 0;
  };
  bool fit = rows.step_a == 1 && rows.step_b == 1 && rows.length % width == 0 && aligned(to) &&
             aligned(from);
  for (int d = 0; d < rows.dims; ++d)
    fit = fit && rows.stride_a[d] % width == 0 && rows.stride_b[d] % width == 0;
  return fit;
}

template <class To, class From = To, class Op>
void run(Stream& stream, const StridedRows& rows, const Tensor& to, const Tensor& from, Op op) {
  constexpr int width = 16 / static_cast<int>(std::max(sizeof(To), sizeof(From)));
  To* y = static_cast<To*>(to.data);
  const From* x = static_cast<const From*>(from.data);
  const bool vecs = in_chunks<width>(rows, y, x);
  check(gpu_launch(vecs ? &strided_kernel<width, To, From, Op> : &strided_kernel<1, To, From, Op>,
                   grid_of(stream, rows, vecs ? width : 1), dim3(elementwise_threads), 0,
                   cuda_stream_of(stream), rows, rows.count(), y, x, op),
        "strided copy");
}

/// f32 and bf16 in any pair.
template <class Op>
void run_floats(Stream& stream, const StridedRows& rows, const Tensor& to, const Tensor& from,
                Op op) {
  using B = __nv_bfloat16;
  if (to.dtype == DType::bf16)
    return from.dtype == DType::bf16 ? run<B, B>(stream, rows, to, from, op)
                                     : run<B, float>(stream, rows, to, from, op);
  return from.dtype == DType::bf16 ? run<float, B>(stream, rows, to, from, op)
                                   : run<float, float>(stream, rows, to, from, op);
}

template <class T>
void find_not_finite(Stream& stream, const Tensor& x, int* found) {
  const StridedRows rows = strided_rows(x, x);
  check(
      gpu_launch(find_not_finite_kernel<T>, grid_of(stream, rows), dim3(elementwise_threads), 0,
                 cuda_stream_of(stream), rows, rows.count(), static_cast<const T*>(x.data), found),
      "find not finite");
}

}  // namespace gpu

void cuda_copy_strided(Stream& stream, const Tensor& to, const Tensor& from, Write write) {
  check_copy(to, from, write);
  if (to.count() == 0) return;
  const StridedRows rows = strided_rows(to, from);
  if (write == Write::add)
    return to.dtype == DType::f64 ? gpu::run<double>(stream, rows, to, from, gpu::Accumulate{})
                                  : gpu::run_floats(stream, rows, to, from, gpu::Accumulate{});
  if (to.dtype != from.dtype) return gpu::run_floats(stream, rows, to, from, gpu::Convert{});
  switch (size_bytes(to.dtype)) {
    case 1:
      return gpu::run<std::uint8_t>(stream, rows, to, from, gpu::Assign{});
    case 2:
      return gpu::run<std::uint16_t>(stream, rows, to, from, gpu::Assign{});
    case 4:
      return gpu::run<std::uint32_t>(stream, rows, to, from, gpu::Assign{});
    case 8:
      return gpu::run<std::uint64_t>(stream, rows, to, from, gpu::Assign{});
    default:
      throw Error(str("copy of elements of ", size_bytes(to.dtype), " bytes"));
  }
}

bool CudaStream::wait_and_check_finite(const Tensor& x) {
  if (x.count() == 0 || !is_floating(x.dtype)) return true;
  const Buffer flag = device().allocate(sizeof(int));  // a debugging aid: it may allocate
  int* found = reinterpret_cast<int*>(flag.data());
  if (x.dtype == DType::f32) gpu::find_not_finite<float>(*this, x, found);
  if (x.dtype == DType::f64) gpu::find_not_finite<double>(*this, x, found);
  if (x.dtype == DType::bf16) gpu::find_not_finite<__nv_bfloat16>(*this, x, found);
  int result = 0;
  copy(&result, found, sizeof result);
  synchronize();
  return result == 0;
}

}  // namespace trireme::kernels
