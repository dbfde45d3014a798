// Launchers of rotary position embedding.
#include "kernels/rotary.h"

#include "kernels/cpu/cpu_device.h"

namespace trireme::kernels {

namespace {

void run(Stream& stream, const Rotary& p) {
  check_rotary(p);
  parallel_for(stream, p.rows, grain_rows(p.heads * p.head_dim),
               [&](Index begin, Index end) { loops_of<RotaryLoops>(stream).run(p, begin, end); });
}

}  // namespace

const RotaryKernels& cpu_table(const RotaryKernels*) {
  static constexpr RotaryKernels kernels = {run};
  return kernels;
}

}  // namespace trireme::kernels
