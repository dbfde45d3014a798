// Rotary position embedding, row by row.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/simd/each.h"

namespace trireme::TRIREME_SIMD {
namespace {

void run(const Rotary& p, Index begin_row, Index end_row) {
  const Index half = p.head_dim / 2, turned = p.heads * p.head_dim;
  const Floats sign = all(p.direction == Rotary::Direction::forward ? 1.0f : -1.0f);
  for (Index row = begin_row; row < end_row; ++row) {
    const float* cosine = p.table + row % p.sequence * p.head_dim;
    const float* sine = cosine + half;
    const float* x = p.x + row * p.row_stride;
    float* y = p.y + row * p.row_stride;
    for (Index head = 0; head < p.heads; ++head) {
      const float* a = x + head * p.head_dim;
      const float* b = a + half;
      float* ya = y + head * p.head_dim;
      float* yb = ya + half;
      each(0, half, [=](auto at) {
        const Floats c = at.load(cosine), s = at.load(sine) * sign, first = at.load(a),
                     second = at.load(b);
        at.store(ya, first * c - second * s);
        at.store(yb, fma(second, c, first * s));
      });
    }
    if (x != y) each(turned, p.row_stride, [=](auto at) { at.store(y, at.load(x)); });
  }
}

}  // namespace

extern const RotaryLoops rotary_loops;
const RotaryLoops rotary_loops = {run};

}  // namespace trireme::TRIREME_SIMD
