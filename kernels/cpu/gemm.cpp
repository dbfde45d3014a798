// Matrix products: oneDNN's, divided among the device's threads by panels of the result. bf16 runs
// on AVX-512 bf16 where that exists; elsewhere the operands are widened in the workspace, and the
// fp32 result is rounded once.
#include "kernels/gemm.h"

#include <cstring>

#include "trireme/core/error.h"
#include "trireme/kernels/elementwise.h"

#include "kernels/activation.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/onednn.h"
#include "kernels/workspace.h"
#include "runtime/core/round_up.h"

namespace trireme::kernels {

namespace {

constexpr Index least_panel =
    128;  // rows or columns: below this, packing the other operand again costs too much
constexpr Index most_panels = 8;
constexpr Index workspace_alignment = 256;

bool is_widened(const DeviceTraits& cpu, const Gemm& p) {
  return p.dtype == DType::bf16 && !cpu.native_bf16;
}

// Null where `x` is: shapes are queried before memory exists.
const void* element(const void* x, DType dtype, Index at) {
  return x == nullptr ? nullptr : static_cast<const std::byte*>(x) + at * size_bytes(dtype);
}
void* element(void* x, DType dtype, Index at) {
  return const_cast<void*>(element(static_cast<const void*>(x), dtype, at));
}

// Rows and columns of an operand as it lies in memory.
struct Extent {
  Index rows, columns;
  Index bytes_as_floats() const {
    return round_up(rows * columns * static_cast<Index>(sizeof(float)), workspace_alignment);
  }
};
Extent stored(Index rows, Index columns, Transpose transpose) {
  return transpose == Transpose::no ? Extent{rows, columns} : Extent{columns, rows};
}
Extent stored_a(const Gemm& p) { return stored(p.m, p.k, p.transpose_a); }
Extent stored_b(const Gemm& p) { return stored(p.k, p.n, p.transpose_b); }
Extent stored_c(const Gemm& p) { return {p.result == DType::bf16 ? p.m : 0, p.n}; }

const float* widened(Stream& stream, const void* from, Index leading, Extent size, float* to) {
  parallel_for(stream, size.rows, grain_rows(size.columns), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row)
      loops_of<ConversionLoops>(stream).widen(static_cast<const Bf16*>(from) + row * leading,
                                              to + row * size.columns, size.columns);
  });
  return to;
}

/// The shape of the product that runs for `p`; pointers are those of `p`.
Gemm shape_that_runs(const DeviceTraits& cpu, const Gemm& p) {
  if (!is_widened(cpu, p)) return p;
  Gemm q = p;
  q.lda = stored_a(p).columns;
  q.ldb = stored_b(p).columns;
  if (p.result == DType::bf16) {
    q.ldc = p.n;
    q.bias = nullptr;  // it is added as the result is rounded
  }
  q.dtype = q.result = DType::f32;
  return q;
}

// The same product in fp32: operands, and the result where it is bf16, lie in the workspace.
Gemm widened(Stream& stream, const Gemm& p) {
  Gemm q = shape_that_runs(stream.device().traits(), p);
  const Extent a = stored_a(p), b = stored_b(p);
  auto* memory = static_cast<std::byte*>(p.workspace);
  const auto take = [&](Extent size) {
    return reinterpret_cast<float*>(std::exchange(memory, memory + size.bytes_as_floats()));
  };
  q.a = widened(stream, p.a, p.lda, a, take(a));
  q.b = widened(stream, p.b, p.ldb, b, take(b));
  if (p.result == DType::bf16) {
    float* c = take(stored_c(p));
    if (p.write == Write::add) widened(stream, p.c, p.ldc, stored_c(p), c);
    q.c = c;
  }
  return q;
}

// Rows [row, row + m) and columns [column, column + n) of c, as a product of its own.
Gemm part_of(const Gemm& p, Index row, Index column, Index m, Index n) {
  Gemm q = p;
  q.m = m;
  q.n = n;
  q.a = element(p.a, p.dtype, p.transpose_a == Transpose::no ? row * p.lda : row);
  q.b = element(p.b, p.dtype, p.transpose_b == Transpose::no ? column : column * p.ldb);
  q.c = element(p.c, p.result, row * p.ldc + column);
  q.bias = element(p.bias, p.result, column);
  q.gelu_input = element(p.gelu_input, p.result, row * p.ldc + column);
  return q;
}

// c becomes zeros (assign) where there is nothing to multiply: oneDNN refuses k = 0.
void clear(const Gemm& p) {
  if (p.write == Write::add) return;
  for (Index row = 0; row < p.m; ++row)
    std::memset(element(p.c, p.result, row * p.ldc), 0,
                static_cast<std::size_t>(p.n * size_bytes(p.result)));
}

void add_bias(Stream& stream, const Gemm& p) {
  auto* c = static_cast<float*>(p.c);
  const auto* bias = static_cast<const float*>(p.bias);
  for (Index row = 0; row < p.m; ++row, c += p.ldc)
    loops_of<ArrayLoops>(stream).accumulate(c, bias, DType::f32, 0, p.n);
}

// c = from + bias, rounded. `from`: (m, n) in fp32.
void round(const Gemm& p, const float* from, Index leading) {
  const auto* bias = static_cast<const Bf16*>(p.bias);
  for (Index row = 0; row < p.m; ++row) {
    const float* x = from + row * leading;
    auto* y = static_cast<Bf16*>(element(p.c, p.result, row * p.ldc));
    for (Index i = 0; i < p.n; ++i)
      y[i] = to_bf16(bias == nullptr ? x[i] : x[i] + to_float(bias[i]));
  }
}

void apply_epilogue(Stream& stream, const Gemm& p) {
  const auto& loops = loops_of<ActivationLoops>(stream);
  for (Index row = 0; row < p.m && p.epilogue != Epilogue::none; ++row) {
    void* y = element(p.c, p.result, row * p.ldc);
    const void* x = element(p.gelu_input, p.result, row * p.ldc);
    if (p.epilogue == Epilogue::gelu)
      loops.forward(
          {.kind = Activation::gelu_tanh, .count = p.n, .x = x, .y = y, .dtype = p.result}, 0, p.n);
    else
      loops.backward({.kind = Activation::gelu_tanh,
                      .count = p.n,
                      .x = x,
                      .dy = y,
                      .dx = y,
                      .dtype = p.result},
                     0, p.n);
  }
}

void add_up_bias_gradient(Stream& stream, const Gemm& p) {
  if (p.write_bias_gradient == Write::assign)
    stream.zero(p.bias_gradient, p.m * static_cast<Index>(sizeof(float)));
  stream.kernels().elementwise.bias_backward(
      stream,
      {.rows = p.k, .channels = p.m, .dy = p.a, .dbias = p.bias_gradient, .dtype = p.dtype});
}

// In fp32 the primitive is no faster than dnnl_sgemm over a whole step (docs/performance.md).
bool uses_primitive(const Gemm& p) { return p.dtype == DType::bf16; }

// oneDNN's order of summation depends on the sizes it is given (its blocks, and a path without
// packing for small ones). So several threads divide panels that depend on the shape only, and any
// number of them gives the same bits; one thread does it in one call, which is 5 to 25 % faster
// than panels, and may differ from them in the last bits.
class Panels {
 public:
  Panels(int threads, const Gemm& p)
      : by_rows_(p.m >= p.n),
        cut_(by_rows_ ? p.m : p.n),
        count_(threads == 1 ? 1 : std::clamp<Index>(cut_ / least_panel, 1, most_panels)) {}

  Index count() const { return count_; }
  /// Panel i of `p`, which has the shape that this was made for.
  Gemm of(const Gemm& p, Index i) const {
    const Index begin = cut_ * i / count_, size = cut_ * (i + 1) / count_ - begin;
    return by_rows_ ? part_of(p, begin, 0, size, p.n) : part_of(p, 0, begin, p.m, size);
  }

 private:
  bool by_rows_;
  Index cut_, count_;
};

/// Of each thread that runs panels of `p`.
Index scratchpad_bytes(OnednnProducts& products, const Gemm& p, const Panels& panels) {
  Index most = 0;
  if (p.m > 0 && p.n > 0 && p.k > 0 && uses_primitive(p))
    for (Index i = 0; i < panels.count(); ++i)
      most = std::max(most, products.scratchpad_bytes(panels.of(p, i)));
  return round_up(most, workspace_alignment);
}

void without_inner_dimension(Stream& stream, const Gemm& p) {
  clear(p);
  if (p.bias == nullptr) return;
  if (p.result == DType::f32) return add_bias(stream, p);
  for (Index row = 0; row < p.m; ++row)
    std::memcpy(element(p.c, p.result, row * p.ldc), p.bias,
                static_cast<std::size_t>(p.n * size_bytes(p.result)));
}

Index widened_bytes(const DeviceTraits& cpu, const Gemm& p) {
  if (!is_widened(cpu, p)) return 0;
  return stored_a(p).bytes_as_floats() + stored_b(p).bytes_as_floats() +
         stored_c(p).bytes_as_floats();
}

Index workspace_bytes(const DeviceTraits& cpu, OnednnProducts& products, const Gemm& p) {
  const Panels panels(cpu.threads, p);
  const Index threads = std::min<Index>(cpu.threads, panels.count());
  return widened_bytes(cpu, p) +
         threads * scratchpad_bytes(products, shape_that_runs(cpu, p), panels);
}

/// `extra`: the calling thread's scratchpad.
void multiply(Stream& stream, const Gemm& p, void* extra) {
  auto& device = static_cast<CpuDevice&>(stream.device());
  if (p.k == 0) return without_inner_dimension(stream, p);
  if (uses_primitive(p)) return device.products().run(p, extra);
  onednn_sgemm(p);
  if (p.bias != nullptr) add_bias(stream, p);
}

void run(Stream& stream, const Gemm& p) {
  auto& device = static_cast<CpuDevice&>(stream.device());
  const DeviceTraits& cpu = device.traits();
  check_gemm(p);
  check_workspace(p, workspace_bytes(cpu, device.products(), p));
  if (p.bias_gradient != nullptr) add_up_bias_gradient(stream, p);
  if (p.m == 0 || p.n == 0) return;
  Gemm product = p;
  if (p.epilogue == Epilogue::gelu) product.c = p.gelu_input;
  const Gemm q = p.k > 0 && is_widened(cpu, p) ? widened(stream, product) : product;
  const Panels panels(cpu.threads, p);
  auto* const scratchpads = static_cast<std::byte*>(p.workspace) + widened_bytes(cpu, p);
  const Index bytes = scratchpad_bytes(device.products(), q, panels);
  parallel_for(stream, panels.count(), 1, [&](Index first, Index last) {
    void* extra = bytes == 0 ? nullptr : scratchpads + ThreadPool::current_thread() * bytes;
    for (Index i = first; i < last; ++i) {
      const Gemm part = panels.of(q, i);
      multiply(stream, part, extra);
      if (q.result != p.result)
        round(panels.of(product, i), static_cast<const float*>(part.c), q.ldc);
      apply_epilogue(stream, panels.of(p, i));
    }
  });
}

GemmPreparation prepare(Stream& stream, const Gemm& p) {
  check_gemm(p);
  auto& device = static_cast<CpuDevice&>(stream.device());
  const Gemm q = shape_that_runs(device.traits(), p);
  if (p.m == 0 || p.n == 0 || p.k == 0 || !uses_primitive(q)) return {};
  const Panels panels(device.traits().threads, p);
  for (Index i = 0; i < panels.count(); ++i) device.products().prepare(panels.of(q, i));
  return {};
}

}  // namespace

/// Asks oneDNN anew each time. That takes 0.03 ms, so 50 ms for a model of 100 layers, once. To
/// keep the answers would need a global, or an object that `graph` hands to ops without knowing
/// kernels.
Index cpu_gemm_workspace_bytes(const DeviceTraits& cpu, const Gemm& p) {
  require(!uses_primitive(shape_that_runs(cpu, p)) || onednn_has_bf16(),
          "DeviceTraits::native_bf16 is set, and this CPU has no instructions for bf16: oneDNN "
          "reports the workspace of such products only where it runs them, so plan on a machine "
          "that has them, or for cpu_traits()");
  OnednnProducts products(0);  // it runs none
  return workspace_bytes(cpu, products, p);
}

const GemmKernels& cpu_table(const GemmKernels*) {
  static constexpr GemmKernels kernels = {run, prepare};
  return kernels;
}

}  // namespace trireme::kernels
