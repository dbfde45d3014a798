// Rotary position embedding, row by row.
#include "kernels/rotary.h"

#include "kernels/cpu/simd/for_each_vector.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

template <class T>
void run_of(const Rotary& p, Index begin_row, Index end_row) {
  const Index half = p.head_dim / 2, turned = p.heads * p.head_dim;
  const Floats sign = all(p.direction == Rotary::Direction::forward ? 1.0f : -1.0f);
  for (Index row = begin_row; row < end_row; ++row) {
    const float* cosine = p.table + row % p.sequence * p.head_dim;
    const float* sine = cosine + half;
    const T* x = static_cast<const T*>(p.x) + row * p.row_stride;
    T* y = static_cast<T*>(p.y) + row * p.row_stride;
    for (Index head = 0; head < p.heads; ++head) {
      const T* a = x + head * p.head_dim;
      const T* b = a + half;
      T* ya = y + head * p.head_dim;
      T* yb = ya + half;
      for_each_vector(0, half, [=](auto at) {
        const Floats c = at.load(cosine), s = at.load(sine) * sign, first = at.load(a),
                     second = at.load(b);
        at.store(ya, first * c - second * s);
        at.store(yb, fma(second, c, first * s));
      });
    }
    if (x != y) for_each_vector(turned, p.row_stride, [=](auto at) { at.store(y, at.load(x)); });
  }
}

void run(const Rotary& p, Index begin_row, Index end_row) {
  with_storage(p.dtype, [&]<class T>(T) { run_of<T>(p, begin_row, end_row); });
}

}  // namespace

}  // namespace trireme::kernels::TRIREME_SIMD

namespace trireme::kernels {

const RotaryLoops RotaryLoops::TRIREME_SIMD = {TRIREME_SIMD::run};

}  // namespace trireme::kernels
