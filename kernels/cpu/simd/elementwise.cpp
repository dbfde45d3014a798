// Sums, bias, dropout, squared error.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/simd/vec.h"

namespace trireme::TRIREME_SIMD {
namespace {

void add(const float* a, const float* b, float* y, Index begin, Index end) {
  each(begin, end, [=](auto at) { at.store(y, at.load(a) + at.load(b)); });
}

void scale(float* y, float factor, Index begin, Index end) {
  each(begin, end, [=](auto at) { at.store(y, at.load(y) * all(factor)); });
}

void bias_add(const BiasAdd& p, Index begin_row, Index end_row) {
  const float* bias = p.bias;
  for (Index row = begin_row; row < end_row; ++row) {
    const float* x = p.x + row * p.channels;
    float* y = p.y + row * p.channels;
    each(0, p.channels, [=](auto at) { at.store(y, at.load(x) + at.load(bias)); });
  }
}

// Rows are summed in blocks, and the blocks' sums added one after the other: short chains keep the
// rounding small.
void bias_backward(const BiasBackward& p, Index begin_channel, Index end_channel) {
  constexpr Index block = 32;
  for (Index first = 0; first < p.rows; first += block) {
    const Index last = first + block < p.rows ? first + block : p.rows;
    each(begin_channel, end_channel, [&](auto at) {
      Floats even = all(0), odd = all(0);
      Index row = first;
      for (; row + 2 <= last; row += 2) {
        even = even + at.load(p.dy + row * p.channels);
        odd = odd + at.load(p.dy + (row + 1) * p.channels);
      }
      if (row < last) even = even + at.load(p.dy + row * p.channels);
      at.store(p.dbias, at.load(p.dbias) + (even + odd));
    });
  }
}

// Philox4x32-10 (core/random.h) for sixteen counters at once: word w of counter first + i becomes
// words[w][i].
void philox_block(std::uint64_t first, std::uint64_t key, std::uint32_t words[4][lanes]) {
  std::uint32_t c0[lanes], c1[lanes], c2[lanes], c3[lanes];
  for (Index i = 0; i < lanes; ++i) {
    const std::uint64_t counter = first + static_cast<std::uint64_t>(i);
    c0[i] = static_cast<std::uint32_t>(counter);
    c1[i] = static_cast<std::uint32_t>(counter >> 32);
    c2[i] = c3[i] = 0;
  }
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (Index i = 0; i < lanes; ++i) {
      const std::uint64_t p0 = 0xD2511F53ull * c0[i], p1 = 0xCD9E8D57ull * c2[i];
      c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<std::uint32_t>(p1);
      c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (Index i = 0; i < lanes; ++i) {
    words[0][i] = c0[i];
    words[1][i] = c1[i];
    words[2][i] = c2[i];
    words[3][i] = c3[i];
  }
}

void dropout(const Dropout& p, Index begin, Index end) {
  constexpr Index block = 4 * lanes;  // elements of one philox_block
  const float kept = 1.0f / (1.0f - p.rate);
  const Index last = p.first_element + end;
  for (Index element = p.first_element + begin; element < last;) {
    const Index start = element & ~Index{3};  // four elements share a counter
    std::uint32_t words[4][lanes];
    philox_block(static_cast<std::uint64_t>(start) >> 2, p.random.key, words);
    float factor[block];
    for (Index i = 0; i < lanes; ++i)
      for (Index w = 0; w < 4; ++w)
        factor[4 * i + w] = static_cast<float>(words[w][i] >> 8) * 0x1p-24f >= p.rate ? kept : 0.0f;
    const Index stop = start + block < last ? start + block : last;
    const float* f = factor + (element - start);
    const float* x = p.x + (element - p.first_element);
    float* y = p.y + (element - p.first_element);
    // A dropped element is zero even where x is infinite.
    const auto kept_value = [=](auto at) {
      return select(all(0) < at.load(f), at.load(x) * at.load(f), all(0));
    };
    if (p.write == Write::assign)
      each(0, stop - element, [=](auto at) { at.store(y, kept_value(at)); });
    else
      each(0, stop - element, [=](auto at) { at.store(y, at.load(y) + kept_value(at)); });
    element = stop;
  }
}

// Sixteen sums side by side, then one after the other.
double squared_error(const SquaredErrorForward& p, Index begin, Index end) {
  double sums[lanes] = {};
  Index i = begin;
  for (; i + lanes <= end; i += lanes)
    for (Index lane = 0; lane < lanes; ++lane) {
      const double d = static_cast<double>(p.x[i + lane]) - static_cast<double>(p.target[i + lane]);
      sums[lane] += d * d;
    }
  for (; i < end; ++i) {
    const double d = static_cast<double>(p.x[i]) - static_cast<double>(p.target[i]);
    sums[0] += d * d;
  }
  double total = 0;
  for (double s : sums) total += s;
  return total;
}

void squared_error_backward(const SquaredErrorBackward& p, Index begin, Index end) {
  const Floats factor = all(static_cast<float>(2 * *p.scale));
  const auto slope = [&](auto at) { return (at.load(p.x) - at.load(p.target)) * factor; };
  if (p.write == Write::assign)
    each(begin, end, [&](auto at) { at.store(p.dx, slope(at)); });
  else
    each(begin, end, [&](auto at) { at.store(p.dx, at.load(p.dx) + slope(at)); });
}

// Infinity and NaN have all exponent bits set; zero times either is NaN.
bool finite(const float* x, Index begin, Index end) {
  const float zero = sum(end - begin, [=](auto at) { return at.load(x + begin) * all(0); });
  return zero == 0.0f;
}

}  // namespace

extern const ElementwiseLoops elementwise_loops;
const ElementwiseLoops elementwise_loops = {
    add, scale, bias_add, bias_backward, dropout, squared_error, squared_error_backward, finite};

}  // namespace trireme::TRIREME_SIMD
