// fma_peak: the fp32 FMA peak of one core, as JSON. Run one per core at once (mpirun or &) for the
// peak of a machine whose clock falls under load. Every share of peak in docs/ divides by this,
// measured in the same run.

#include <algorithm>
#include <cstdio>

#include "trireme/kernels/device.h"

int main() {
  double best = 0;
  for (int i = 0; i < 10; ++i) best = std::max(best, trireme::measure_peak_flops());
  std::printf("{\"fma_peak_gflops\": %.1f}\n", best / 1e9);
}
