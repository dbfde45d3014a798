// Sums, bias, dropout, squared error.
#include "kernels/elementwise.h"

#include "kernels/cpu/loops.h"
#include "kernels/cpu/simd/for_each_vector.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

void add(const Addition& p, Index begin, Index end) {
  with_storage(p.dtype, [&]<class T>(T) {
    const T *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
    T* y = static_cast<T*>(p.y);
    for_each_vector(begin, end, [=](auto at) { at.store(y, at.load(a) + at.load(b)); });
  });
}

void accumulate(float* to, const void* from, DType dtype, Index begin, Index end) {
  with_storage(dtype, [&]<class T>(T) {
    const T* x = static_cast<const T*>(from);
    for_each_vector(begin, end, [=](auto at) { at.store(to, at.load(to) + at.load(x)); });
  });
}

void bias_add(const BiasAdd& p, Index begin_row, Index end_row) {
  with_storage(p.dtype, [&]<class T>(T) {
    const T* bias = static_cast<const T*>(p.bias);
    for (Index row = begin_row; row < end_row; ++row) {
      const T* x = static_cast<const T*>(p.x) + row * p.channels;
      T* y = static_cast<T*>(p.y) + row * p.channels;
      for_each_vector(0, p.channels, [=](auto at) { at.store(y, at.load(x) + at.load(bias)); });
    }
  });
}

// Rows are summed in blocks, and the blocks' sums added one after the other: short chains keep the
// rounding small.
template <class T>
void bias_backward_of(const BiasBackward& p, Index begin_channel, Index end_channel) {
  constexpr Index block = 32;
  const T* dy = static_cast<const T*>(p.dy);
  for (Index first = 0; first < p.rows; first += block) {
    const Index last = first + block < p.rows ? first + block : p.rows;
    for_each_vector(begin_channel, end_channel, [&](auto at) {
      Floats even = all(0), odd = all(0);
      Index row = first;
      for (; row + 2 <= last; row += 2) {
        even = even + at.load(dy + row * p.channels);
        odd = odd + at.load(dy + (row + 1) * p.channels);
      }
      if (row < last) even = even + at.load(dy + row * p.channels);
      at.store(p.dbias, at.load(p.dbias) + (even + odd));
    });
  }
}
void bias_backward(const BiasBackward& p, Index begin_channel, Index end_channel) {
  with_storage(p.dtype, [&]<class T>(T) { bias_backward_of<T>(p, begin_channel, end_channel); });
}

// 64-bit lanes of which Philox uses the lower halves; the upper ones hold anything.
typedef std::uint64_t WideRegister __attribute__((vector_size(register_bytes)));
typedef std::uint64_t UnalignedWide
    __attribute__((vector_size(register_bytes), aligned(8), may_alias));
constexpr Index wide_lanes = register_bytes / 8;

/// The 64-bit products of the lower halves.
TRIREME_INLINE WideRegister multiply_low(WideRegister a, WideRegister b) {
#if defined(__AVX512F__)
  return (WideRegister)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (WideRegister)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (WideRegister)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// Philox4x32-10 (core/random.h) for sixteen counters from `first` on: their 64 words in order.
constexpr Index philox_words = 4 * lanes;
TRIREME_INLINE void philox_block(std::uint64_t first, std::uint64_t key, std::uint32_t* words) {
  const WideRegister zero = {};
  const WideRegister m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
  for (Index start = 0; start < lanes; start += wide_lanes) {
    WideRegister c0, c1, c2 = zero, c3 = zero;
    for (Index i = 0; i < wide_lanes; ++i) c0[i] = first + static_cast<std::uint64_t>(start + i);
    c1 = c0 >> 32;
    std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const WideRegister p0 = multiply_low(c0, m0), p1 = multiply_low(c2, m1);
      c0 = (p1 >> 32) ^ c1 ^ (zero + k0);
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ (zero + k1);
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    std::uint64_t pairs[2][wide_lanes];
    *reinterpret_cast<UnalignedWide*>(pairs[0]) = (c0 & 0xffffffffu) | c1 << 32;
    *reinterpret_cast<UnalignedWide*>(pairs[1]) = (c2 & 0xffffffffu) | c3 << 32;
    for (Index i = 0; i < wide_lanes; ++i)
      for (Index half = 0; half < 2; ++half) {
        words[4 * (start + i) + 2 * half] = static_cast<std::uint32_t>(pairs[half][i]);
        words[4 * (start + i) + 2 * half + 1] = static_cast<std::uint32_t>(pairs[half][i] >> 32);
      }
  }
}

template <class T>
void dropout_of(const Dropout& p, Index begin, Index end) {
  const float kept = 1.0f / (1.0f - p.rate);
  const std::uint64_t key = p.random.now().key;
  const Index last = p.first_element + end;
  for (Index element = p.first_element + begin; element < last;) {
    const Index start = element & ~Index{3};  // four elements share a counter
    std::uint32_t words[philox_words];
    philox_block(static_cast<std::uint64_t>(start) >> 2, key, words);
    float factor[philox_words];  // Random::uniform(element) >= rate
    for (Index i = 0; i < philox_words; ++i)
      factor[i] = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24f >= p.rate
                      ? kept
                      : 0.0f;
    const Index stop = start + philox_words < last ? start + philox_words : last;
    const float* f = factor + (element - start);
    const T* x = static_cast<const T*>(p.x) + (element - p.first_element);
    T* y = static_cast<T*>(p.y) + (element - p.first_element);
    // A dropped element is zero even where x is infinite.
    const auto value = [=](auto at) {
      return select(all(0) < at.load(f), at.load(x) * at.load(f), all(0));
    };
    if (p.write == Write::assign)
      for_each_vector(0, stop - element, [=](auto at) { at.store(y, value(at)); });
    else
      for_each_vector(0, stop - element, [=](auto at) { at.store(y, at.load(y) + value(at)); });
    element = stop;
  }
}

void dropout(const Dropout& p, Index begin, Index end) {
  with_storage(p.dtype, [&]<class T>(T) { dropout_of<T>(p, begin, end); });
}

TRIREME_INLINE double wide(float x) { return static_cast<double>(x); }
TRIREME_INLINE double wide(Bf16 x) {
  return static_cast<double>(__builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16));
}

// Sixteen sums side by side, then one after the other.
template <class T>
double squared_error_of(const SquaredErrorForward& p, Index begin, Index end) {
  const T *x = static_cast<const T*>(p.x), *target = static_cast<const T*>(p.target);
  double sums[lanes] = {};
  Index i = begin;
  for (; i + lanes <= end; i += lanes)
    for (Index lane = 0; lane < lanes; ++lane) {
      const double d = wide(x[i + lane]) - wide(target[i + lane]);
      sums[lane] += d * d;
    }
  for (; i < end; ++i) {
    const double d = wide(x[i]) - wide(target[i]);
    sums[0] += d * d;
  }
  double total = 0;
  for (double s : sums) total += s;
  return total;
}
double squared_error(const SquaredErrorForward& p, Index begin, Index end) {
  double total = 0;
  with_storage(p.dtype, [&]<class T>(T) { total = squared_error_of<T>(p, begin, end); });
  return total;
}

void squared_error_backward(const SquaredErrorBackward& p, Index begin, Index end) {
  with_storage(p.dtype, [&]<class T>(T) {
    const T *x = static_cast<const T*>(p.x), *target = static_cast<const T*>(p.target);
    T* dx = static_cast<T*>(p.dx);
    const Floats factor = all(static_cast<float>(2 * *p.scale));
    const auto slope = [&](auto at) { return (at.load(x) - at.load(target)) * factor; };
    if (p.write == Write::assign)
      for_each_vector(begin, end, [&](auto at) { at.store(dx, slope(at)); });
    else
      for_each_vector(begin, end, [&](auto at) { at.store(dx, at.load(dx) + slope(at)); });
  });
}

// Infinity and NaN have all exponent bits set; zero times either is NaN.
bool finite(const float* x, Index begin, Index end) {
  const float zero = sum(end - begin, [=](auto at) { return at.load(x + begin) * all(0); });
  return zero == 0.0f;
}

}  // namespace

}  // namespace trireme::kernels::TRIREME_SIMD

namespace trireme::kernels {

const ElementwiseLoops ElementwiseLoops::TRIREME_SIMD = {
    TRIREME_SIMD::add,     TRIREME_SIMD::bias_add,      TRIREME_SIMD::bias_backward,
    TRIREME_SIMD::dropout, TRIREME_SIMD::squared_error, TRIREME_SIMD::squared_error_backward};
const ArrayLoops ArrayLoops::TRIREME_SIMD = {TRIREME_SIMD::accumulate, TRIREME_SIMD::finite};

}  // namespace trireme::kernels
