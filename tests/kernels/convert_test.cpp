// Copies and sums between f32 and bf16 through any strides: rounded once, to nearest.
#include "trireme/core/bf16.h"
#include "trireme/kernels/write.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

/// Elements stored as `dtype`.
class Stored {
 public:
  Stored(DType dtype, const Floats& values) : dtype_(dtype), floats_(values) {
    for (const float x : values) halves_.push_back(to_bf16(x));
  }
  Tensor tensor(Shape shape, Shape strides) {
    Tensor x(dtype_ == DType::bf16 ? static_cast<void*>(halves_.data()) : floats_.data(), shape,
             dtype_);
    x.strides = strides;
    return x;
  }
  float operator[](Index i) const {
    return dtype_ == DType::bf16 ? to_float(halves_[at(i)]) : floats_[at(i)];
  }

 private:
  DType dtype_;
  Floats floats_;
  std::vector<Bf16> halves_;
};

TEST(Strided, ConvertsBetweenF32AndBf16) {
  const Shape shape = {50, 301};
  constexpr Index span = 50 * 400;
  const Floats x = random_values(span, "x"), y = random_values(span, "y");
  for (const int threads : {1, 3})
    for (const DType to_type : {DType::f32, DType::bf16})
      for (const DType from_type : {DType::f32, DType::bf16})
        for (const bool transposed : {false, true})
          for (const Write write : {Write::assign, Write::add}) {
            const auto device = open_cpu({threads});
            const auto stream = device->make_stream();
            Stored from(from_type, x), to(to_type, y);
            const Shape to_strides = {301, 1},
                        from_strides = transposed ? Shape{1, 50} : Shape{400, 1};
            Floats expected;
            for (Index r = 0; r < 50; ++r)
              for (Index c = 0; c < 301; ++c) {
                const float term = from[r * from_strides[0] + c * from_strides[1]];
                const float sum = write == Write::add ? to[r * 301 + c] + term : term;
                expected.push_back(to_type == DType::bf16 ? to_float(to_bf16(sum)) : sum);
              }
            const Tensor target = to.tensor(shape, to_strides),
                         source = from.tensor(shape, from_strides);
            write == Write::add ? stream->add(target, source) : stream->copy(target, source);
            Index wrong = 0;
            for (Index i = 0; i < shape.count(); ++i) wrong += to[i] != expected[at(i)];
            EXPECT_EQ(wrong, 0) << to_type << " from " << from_type;
          }
}

TEST(Strided, OnlyF32AndBf16Convert) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  std::vector<double> wide(6);
  std::vector<Bf16> half(6);
  const Tensor x(wide.data(), {6}, DType::f64), y(half.data(), {6}, DType::bf16);
  EXPECT_THROW(stream->copy(y, x), Error);
  EXPECT_THROW(stream->add(x, y), Error);
}

TEST(Strided, FindsWhatIsNotFiniteInBf16) {
  const auto device = open_cpu({2});
  const auto stream = device->make_stream();
  std::vector<Bf16> x(40001, to_bf16(3e38f));
  EXPECT_TRUE(stream->wait_and_check_finite(Tensor(x.data(), {40001}, DType::bf16)));
  for (const float bad : {HUGE_VALF, std::nanf("")}) {
    x[40000] = to_bf16(bad);
    EXPECT_FALSE(stream->wait_and_check_finite(Tensor(x.data(), {40001}, DType::bf16)));
  }
}

}  // namespace
}  // namespace trireme
