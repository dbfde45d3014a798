// Copies and sums between tensors of any strides, and the search for values that are not finite.
#include <numeric>

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

// Elements of a tensor in row-major order, through its strides.
template <class T>
std::vector<T> elements(const Tensor& x) {
  std::vector<T> out;
  for (Index i = 0; i < x.count(); ++i) {
    Index rest = i, offset = 0;
    for (int d = x.shape.dims() - 1; d >= 0; --d) {
      offset += rest % x.shape[d] * x.strides[d];
      rest /= x.shape[d];
    }
    out.push_back(static_cast<const T*>(x.data)[offset]);
  }
  return out;
}

template <class T>
void check_strided(Shape shape, Shape to_strides, Shape from_strides, Index span) {
  std::vector<T> from(at(span)), before(at(span));
  std::iota(from.begin(), from.end(), T{1});
  std::iota(before.begin(), before.end(), T{50});
  for (int threads : {1, 3}) {
    const auto device = open_cpu({threads});
    const auto stream = device->make_stream();
    std::vector<T> to = before;
    Tensor x(from.data(), shape, DTypeOf<T>::value), y(to.data(), shape, DTypeOf<T>::value);
    x.strides = from_strides;
    y.strides = to_strides;
    stream->copy(y, x);
    EXPECT_EQ(elements<T>(y), elements<T>(x));
    if (x.dtype != DType::f32 && x.dtype != DType::f64) {
      EXPECT_THROW(stream->add(y, x), Error);
      continue;
    }
    to = before;
    std::vector<T> sum = elements<T>(y);
    const std::vector<T> more = elements<T>(x);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
    stream->add(y, x);
    EXPECT_EQ(elements<T>(y), sum);
  }
}

template <class T>
void check_all() {
  check_strided<T>({}, {}, {}, 1);
  check_strided<T>({7}, {1}, {1}, 7);
  check_strided<T>({7}, {3}, {2}, 30);
  check_strided<T>({5, 7}, {7, 1}, {1, 5}, 35);  // transposed
  check_strided<T>({5, 7}, {7, 1}, {9, 1}, 60);  // a slice of wider rows
  check_strided<T>({3, 1, 4, 5}, {20, 20, 5, 1}, {40, 7, 10, 2}, 200);
  check_strided<T>({2, 3, 4, 5, 2, 3}, {360, 120, 30, 6, 3, 1}, {1, 2, 6, 24, 120, 240}, 720);
  check_strided<T>({300, 200}, {200, 1}, {1, 300}, 60000);  // enough for several threads
  check_strided<T>({0, 3}, {3, 1}, {3, 1}, 1);
}

TEST(Strided, CopiesAndAddsAnyStrides) {
  check_all<float>();
  check_all<double>();
  check_all<std::int32_t>();
  check_all<std::int64_t>();
}
TEST(Strided, CopiesBytes) { check_strided<std::uint8_t>({5, 7}, {7, 1}, {1, 5}, 35); }

TEST(Strided, RejectsDifferentShapesAndTypes) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  Floats x(6);
  std::vector<double> y(6);
  EXPECT_THROW(stream->copy(Tensor(x.data(), {2, 3}), Tensor(x.data(), {3, 2})), Error);
  EXPECT_THROW(stream->copy(Tensor(x.data(), {6}), Tensor(y.data(), {6}, DType::f64)), Error);
}

TEST(Strided, FindsWhatIsNotFinite) {
  for (InstructionSet set : instruction_sets()) {
    const auto device = open_cpu({2, set});
    const auto stream = device->make_stream();
    for (float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")})
      for (Index position : {Index{0}, Index{17}, Index{40000}}) {
        Floats x(40001, 3e38f);
        EXPECT_TRUE(stream->wait_and_check_finite(Tensor(x.data(), {40001})));
        x[at(position)] = bad;
        EXPECT_FALSE(stream->wait_and_check_finite(Tensor(x.data(), {40001})));
        Tensor every_second(x.data(), {20001});
        every_second.strides[0] = 2;
        EXPECT_EQ(stream->wait_and_check_finite(every_second), position % 2 == 1);
      }
    std::vector<double> y(9, 1.0);
    EXPECT_TRUE(stream->wait_and_check_finite(Tensor(y.data(), {3, 3}, DType::f64)));
    y[8] = HUGE_VAL;
    EXPECT_FALSE(stream->wait_and_check_finite(Tensor(y.data(), {3, 3}, DType::f64)));
  }
}

TEST(CpuStream, CopiesAndZeroesBytes) {
  for (int threads : {1, 3}) {
    const auto device = open_cpu({threads});
    const auto stream = device->make_stream();
    const Index count = 1 << 20;
    const Floats x = random_values(count, "x");
    Floats y(x.size());
    stream->copy(y.data(), x.data(), count * 4);
    EXPECT_TRUE(same_bits(x, y));
    stream->zero(y.data(), count * 4);
    EXPECT_TRUE(same_bits(y, Floats(x.size())));
  }
}

}  // namespace
}  // namespace trireme
