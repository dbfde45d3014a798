// Peak rates of this machine, measured: what log lines and benchmarks compare with.
#include <chrono>
#include <vector>

#include "trireme/core/error.h"

#include "kernels/cpu/loops.h"

namespace trireme {

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double measure_peak_flops(InstructionSet set) {
  const Loops& loops = loops_for(set);
  double best = 0, value = 0;
  for (const double end = seconds() + 0.05; seconds() < end;) {
    double operations = 0;
    const double start = seconds();
    value += loops.multiply_add(100000, &operations);
    best = std::max(best, operations / (seconds() - start));
  }
  require(value > 0, "the FMA loop gave ", value);  // keeps the compiler from dropping it
  return best;
}

double measure_gemm_flops(Stream& stream, Index size) {
  require(size >= 1, "GEMM of size ", size);
  const Index bytes = size * size * static_cast<Index>(sizeof(float));
  const Buffer a = stream.device().allocate(bytes), b = stream.device().allocate(bytes);
  const Buffer c = stream.device().allocate(bytes);
  stream.zero(a.data(), bytes);
  stream.zero(b.data(), bytes);
  const Gemm gemm = {size,
                     size,
                     size,
                     reinterpret_cast<const float*>(a.data()),
                     size,
                     Transpose::no,
                     reinterpret_cast<const float*>(b.data()),
                     size,
                     Transpose::no,
                     reinterpret_cast<float*>(c.data()),
                     size};
  const double operations =
      2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  double best = 0;
  for (const double end = seconds() + 0.1; best == 0 || seconds() < end;) {
    const double start = seconds();
    stream.kernels().gemm.run(stream, gemm);
    stream.synchronize();
    best = std::max(best, operations / (seconds() - start));
  }
  return best;
}

}  // namespace trireme
