// LayerNorm and RMSNorm, row by row. A row's sums are made in lanes (vec.h), so a row's result
// depends on the row alone.
#include "kernels/norm.h"

#include "kernels/cpu/simd/for_each_vector.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

template <class T>
void forward_of(const NormForward& p, Index begin_row, Index end_row) {
  const Index n = p.channels;
  const float inverse_n = 1.0f / static_cast<float>(n);
  const T* weight = static_cast<const T*>(p.weight);
  const T* bias = static_cast<const T*>(p.bias);
  for (Index row = begin_row; row < end_row; ++row) {
    const T* s = static_cast<const T*>(p.x) + row * n;
    if (p.delta != nullptr) {
      const T* x = s;
      const T* delta = static_cast<const T*>(p.delta) + row * n;
      T* into = static_cast<T*>(p.sum) + row * n;
      for_each_vector(0, n, [=](auto at) { at.store(into, at.load(x) + at.load(delta)); });
      s = into;
    }
    const float mean =
        p.kind == NormKind::layer ? sum(n, [=](auto at) { return at.load(s); }) * inverse_n : 0.0f;
    const Floats shift = all(mean);
    const float variance = sum(n,
                               [=](auto at) {
                                 const Floats d = at.mask(at.load(s) - shift);
                                 return d * d;
                               }) *
                           inverse_n;
    const float rstd = 1.0f / __builtin_sqrtf(variance + p.epsilon);
    const Floats factor = all(rstd);
    T* y = static_cast<T*>(p.y) + row * n;
    if (bias != nullptr)
      for_each_vector(0, n, [=](auto at) {
        at.store(y, fma((at.load(s) - shift) * factor, at.load(weight), at.load(bias)));
      });
    else
      for_each_vector(
          0, n, [=](auto at) { at.store(y, (at.load(s) - shift) * factor * at.load(weight)); });
    if (p.mean != nullptr) p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

void forward(const NormForward& p, Index begin_row, Index end_row) {
  with_storage(p.dtype, [&]<class T>(T) { forward_of<T>(p, begin_row, end_row); });
}

// g = dy weight, h = (s - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)), without mean(g) for
// RMSNorm.
template <class T>
void input_gradient(const NormBackward& p, Index row) {
  const Index n = p.channels;
  const float inverse_n = 1.0f / static_cast<float>(n);
  const T* s = static_cast<const T*>(p.s) + row * n;
  const T* dy = static_cast<const T*>(p.dy) + row * n;
  const T* weight = static_cast<const T*>(p.weight);
  const bool layer = p.kind == NormKind::layer;
  const Floats shift = all(layer ? p.mean[row] : 0.0f), factor = all(p.rstd[row]);
  const auto g = [=](auto at) { return at.load(dy) * at.load(weight); };
  const auto h = [=](auto at) { return (at.load(s) - shift) * factor; };
  const Floats along = all(sum(n, [=](auto at) { return g(at) * h(at); }) *
                           inverse_n);  // g is zero in missing lanes
  const Floats mean_g = all(layer ? sum(n, g) * inverse_n : 0.0f);
  const auto slope = [=](auto at) { return (g(at) - mean_g - h(at) * along) * factor; };
  T* dx = static_cast<T*>(p.dx) + row * n;
  const T* dsum = p.dsum == nullptr ? nullptr : static_cast<const T*>(p.dsum) + row * n;
  const bool adds = p.write_dx == Write::add;
  if (dsum != nullptr && adds)
    for_each_vector(0, n,
                    [=](auto at) { at.store(dx, at.load(dx) + (slope(at) + at.load(dsum))); });
  else if (dsum != nullptr || adds) {
    const T* more = adds ? dx : dsum;
    for_each_vector(0, n, [=](auto at) { at.store(dx, slope(at) + at.load(more)); });
  } else
    for_each_vector(0, n, [=](auto at) { at.store(dx, slope(at)); });
}

// Four rows at a time, so that the sums are loaded and stored less often.
template <class T, int rows>
void parameter_gradient(const NormBackward& p, float* dweight, float* dbias, Index row) {
  const Index n = p.channels;
  const bool layer = p.kind == NormKind::layer;
  Floats shift[rows], factor[rows];
  for (int r = 0; r < rows; ++r) {
    shift[r] = all(layer ? p.mean[row + r] : 0.0f);
    factor[r] = all(p.rstd[row + r]);
  }
  const T* s = static_cast<const T*>(p.s) + row * n;
  const T* dy = static_cast<const T*>(p.dy) + row * n;
  for_each_vector(0, n, [&](auto at) {
    Floats w = all(0), b = all(0);
    for (int r = 0; r < rows; ++r) {
      const Floats d = at.load(dy + r * n);
      w = fma(d, (at.load(s + r * n) - shift[r]) * factor[r], w);
      b = b + d;
    }
    if (dweight != nullptr) at.store(dweight, at.load(dweight) + w);
    if (dbias != nullptr) at.store(dbias, at.load(dbias) + b);
  });
}

// Parameter gradients first: dx may be written over what they read (dsum only, but rows stay in the
// cache either way).
template <class T>
void backward_of(const NormBackward& p, float* dweight, float* dbias, Index begin_row,
                 Index end_row) {
  const bool parameters = dweight != nullptr || dbias != nullptr;
  for (Index row = begin_row; row < end_row;) {
    const Index rows = row + 4 <= end_row ? 4 : 1;
    if (parameters && rows == 4) parameter_gradient<T, 4>(p, dweight, dbias, row);
    if (parameters && rows == 1) parameter_gradient<T, 1>(p, dweight, dbias, row);
    for (Index r = row; r < row + rows && p.dx != nullptr; ++r) input_gradient<T>(p, r);
    row += rows;
  }
}

void backward(const NormBackward& p, float* dweight, float* dbias, Index begin_row, Index end_row) {
  for (float* sums : {dweight, dbias})
    if (sums != nullptr) for_each_vector(0, p.channels, [=](auto at) { at.store(sums, all(0)); });
  with_storage(p.dtype, [&]<class T>(T) { backward_of<T>(p, dweight, dbias, begin_row, end_row); });
}

}  // namespace

}  // namespace trireme::kernels::TRIREME_SIMD

namespace trireme::kernels {

const NormLoops NormLoops::TRIREME_SIMD = {TRIREME_SIMD::forward, TRIREME_SIMD::backward};

}  // namespace trireme::kernels
