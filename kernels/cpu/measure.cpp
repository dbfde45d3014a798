// Peak rates of this machine, measured: what log lines and benchmarks compare with.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/random.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/kernels.h"

#include "kernels/cpu/loops.h"
#include "runtime/core/seconds_since.h"

namespace trireme {

using namespace kernels;

namespace {

/// A product of squares without memory.
Gemm square_product(Index size, DType dtype) {
  Gemm gemm{};
  gemm.m = gemm.n = gemm.k = gemm.lda = gemm.ldb = gemm.ldc = size;
  gemm.dtype = gemm.result = dtype;
  return gemm;
}

/// Of each of its matrices.
Index square_bytes(const Gemm& gemm) { return gemm.m * gemm.n * size_bytes(gemm.dtype); }

/// Seconds that the fastest of some such products took.
double fastest_gemm(Stream& stream, Gemm gemm) {
  const Index bytes = square_bytes(gemm),
              extra = gemm_workspace_bytes(stream.device().traits(), gemm);
  const Buffer a = stream.device().allocate(bytes), b = stream.device().allocate(bytes);
  const Buffer c = stream.device().allocate(bytes), workspace = stream.device().allocate(extra);
  fill_for_timing(stream, a.data(), bytes);
  fill_for_timing(stream, b.data(), bytes);
  gemm.a = a.data();
  gemm.b = b.data();
  gemm.c = c.data();
  gemm.workspace = workspace.data();
  double least = 0;
  for (const double end = steady_seconds() + 0.1; least == 0 || steady_seconds() < end;) {
    const double start = steady_seconds();
    stream.kernels().gemm.run(stream, gemm);
    stream.synchronize();
    const double took = seconds_since(start);
    least = least == 0 ? took : std::min(least, took);
  }
  return least;
}

}  // namespace

void fill_for_timing(Stream& stream, void* data, Index bytes) {
  require(bytes % 2 == 0, "values of two bytes do not fill ", bytes);
  constexpr Index most = Index{1} << 20;  // of different ones
  const Random random = random_for(1, "timing");
  std::vector<std::uint16_t> values(static_cast<std::size_t>(std::min(bytes, most) / 2));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = random.bits(static_cast<Index>(i));
    values[i] = static_cast<std::uint16_t>((bits & 0x8000u) | 0x3F00u | (bits & 0xFFu));
  }
  Index filled = 2 * static_cast<Index>(values.size());
  stream.copy(data, values.data(), filled);
  stream.synchronize();  // they go
  auto* to = static_cast<std::byte*>(data);
  for (; filled < bytes; filled += std::min(filled, bytes - filled))
    stream.copy(to + filled, to, std::min(filled, bytes - filled));
}

double measure_peak_flops(InstructionSet set) {
  const auto& loops = loops_for<PeakLoops>(resolve(set));
  double best = 0, value = 0;
  for (const double end = steady_seconds() + 0.05; steady_seconds() < end;) {
    double operations = 0;
    const double start = steady_seconds();
    value += loops.multiply_add(100000, &operations);
    best = std::max(best, operations / seconds_since(start));
  }
  require(value > 0, "the FMA loop gave ", value);  // keeps the compiler from dropping it
  return best;
}

double measure_copy_rate(Stream& stream) {
  constexpr Index least = 4096;
  constexpr int copies = 4;  // that the host waits for together
  const bool gpu = stream.device().kind() == DeviceKind::cuda;
  const Index most = (gpu ? Index{256} : Index{128}) << 20;
  const Index bytes = std::clamp(stream.device().free_bytes() / 8, least, most);
  const Buffer from = stream.device().allocate(bytes), to = stream.device().allocate(bytes);
  fill_for_timing(stream, from.data(), bytes / 2 * 2);
  stream.copy(to.data(), from.data(), bytes);  // whatever the first one has to do besides
  stream.synchronize();
  double best = 0;
  for (const double end = steady_seconds() + 0.1; best == 0 || steady_seconds() < end;) {
    const double start = steady_seconds();
    for (int i = 0; i < copies; ++i) stream.copy(to.data(), from.data(), bytes);
    stream.synchronize();
    best = std::max(best, 2.0 * copies * static_cast<double>(bytes) / seconds_since(start));
  }
  return best;
}

double measure_gemm_flops(Stream& stream, DType dtype) {
  constexpr Index always = 512,
                  largest = 8192;  // the small ones fit between the time slices of a busy machine
  double best = 0, took = 0;
  for (Index size = 256; size <= largest && (size <= always || took < 0.01); size *= 2) {
    const Gemm gemm = square_product(size, dtype);
    const Index needed =
        3 * square_bytes(gemm) + gemm_workspace_bytes(stream.device().traits(), gemm);
    if (needed > stream.device().free_bytes() / 2) break;
    took = fastest_gemm(stream, gemm);
    const auto n = static_cast<double>(size);
    best = std::max(best, 2 * n * n * n / took);
  }
  return best;
}

}  // namespace trireme
