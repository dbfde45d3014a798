// Launchers of rotary position embedding.
#include <cmath>

#include "kernels/cpu/cpu_device.h"
#include "kernels/shape_checks.h"

namespace trireme {

namespace {

void run(Stream& stream, const Rotary& p) {
  check_rotary(p);
  parallel_for(stream, p.rows, grain_rows(p.heads * p.head_dim),
               [&](Index begin, Index end) { loops_of(stream).rotary.run(p, begin, end); });
}

// In fp64, since positions are large and the table is made once.
void fill_table(Stream& stream, float* table, Index sequence, Index head_dim, float theta) {
  require(head_dim >= 2 && head_dim % 2 == 0, "rotary embedding turns pairs: head_dim ", head_dim,
          " is odd");
  const Index half = head_dim / 2;
  parallel_for(stream, sequence, 64, [&](Index begin, Index end) {
    for (Index j = 0; j < half; ++j) {
      const double frequency =
          std::pow(static_cast<double>(theta),
                   -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
      for (Index position = begin; position < end; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        table[position * head_dim + j] = static_cast<float>(std::cos(angle));
        table[position * head_dim + half + j] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

}  // namespace

const RotaryKernels cpu_rotary_kernels = {run, fill_table};

}  // namespace trireme
