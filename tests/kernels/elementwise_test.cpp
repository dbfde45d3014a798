// Sums, biases, dropout and squared error on CPUs against references in fp64.
#include "trireme/kernels/elementwise.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

const std::vector<Index> elementwise_counts = {0, 1, 31, 33, 20011, 100003};

TEST(Elementwise, SumsAreExact) {
  for (Index count : elementwise_counts) {
    const Floats a = random_values(count, "a"), b = random_values(count, "b");
    Doubles sum;
    for (Index i = 0; i < count; ++i) sum.push_back(static_cast<double>(a[at(i)] + b[at(i)]));
    expect_everywhere(
        [&](Stream& s) {
          Floats y(at(count)), over_a = a, over_b = b;
          s.kernels().elementwise.add(s, {count, a.data(), b.data(), y.data()});
          s.kernels().elementwise.add(s, {count, over_a.data(), b.data(), over_a.data()});
          s.kernels().elementwise.add(s, {count, a.data(), over_b.data(), over_b.data()});
          EXPECT_TRUE(same_bits(y, over_a));
          EXPECT_TRUE(same_bits(y, over_b));
          return y;
        },
        sum, 0);
  }
}

TEST(Elementwise, BiasIsAddedToEveryRowAndItsGradientSummedOverThem) {
  for (const auto& [rows, channels] :
       {std::pair<Index, Index>{1, 1}, {31, 33}, {33, 31}, {70, 65}, {301, 384}}) {
    const Floats x = random_values(rows * channels, "x"), bias = random_values(channels, "bias");
    Doubles y, dbias = to_double(bias);
    for (Index i = 0; i < rows * channels; ++i) {
      y.push_back(static_cast<double>(x[at(i)]) + static_cast<double>(bias[at(i % channels)]));
      dbias[at(i % channels)] += static_cast<double>(x[at(i)]);
    }
    const Index n = rows, m = channels;
    expect_everywhere(
        [&](Stream& s) {
          Floats out(x.size()), in_place = x;
          s.kernels().elementwise.bias_add(s, {n, m, x.data(), bias.data(), out.data()});
          s.kernels().elementwise.bias_add(s,
                                           {n, m, in_place.data(), bias.data(), in_place.data()});
          EXPECT_TRUE(same_bits(out, in_place));
          return out;
        },
        y, 1e-7);
    expect_everywhere(
        [&](Stream& s) {
          Floats out = bias;
          s.kernels().elementwise.bias_backward(s, {n, m, x.data(), out.data()});
          return out;
        },
        dbias, 1e-6);
  }
}

TEST(Dropout, KeepsWhatTheGlobalIndexSays) {
  for (Index count : {Index{1}, Index{31}, Index{33}, Index{40003}})
    for (Index first : {Index{0}, Index{1}, Index{6}, Index{1} << 35})
      for (Write write : {Write::assign, Write::add}) {
        const Random random = random_for(3, "dropout", 5);
        const StepScalars scalars{.step = 5};
        const StepRandom of_step{random_key(3, "dropout"), &scalars};
        const Floats x = random_values(count, "x"), before = random_values(count, "before");
        Doubles expected;
        for (Index i = 0; i < count; ++i)
          expected.push_back((random.uniform(first + i) >= 0.3f
                                  ? static_cast<double>(x[at(i)]) / (1 - 0.3)
                                  : 0.0) +
                             (write == Write::add ? static_cast<double>(before[at(i)]) : 0.0));
        expect_everywhere(
            [&](Stream& s) {
              Floats y = before;
              s.kernels().elementwise.dropout(
                  s, {count, first, 0.3f, of_step, x.data(), y.data(), write});
              if (write == Write::assign) {
                Floats z = x;
                s.kernels().elementwise.dropout(
                    s, {count, first, 0.3f, of_step, z.data(), z.data(), write});
                EXPECT_TRUE(same_bits(y, z));
              }
              return y;
            },
            expected, 2e-7);
      }
}

TEST(Dropout, RejectsARateOfOne) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  float x = 1;
  EXPECT_THROW(stream->kernels().elementwise.dropout(*stream, {1, 0, 1.0f, {}, &x, &x}), Error);
}

TEST(SquaredError, MatchesTheReference) {
  for (Index count : {Index{1}, Index{33}, Index{20011}}) {
    const Floats x = random_values(count, "x"), target = random_values(count, "target"),
                 before = random_values(count, "dx");
    const double scale = 0.37;
    double loss = 0;
    Doubles dx, added;
    for (Index i = 0; i < count; ++i) {
      const double d = static_cast<double>(x[at(i)]) - static_cast<double>(target[at(i)]);
      loss += d * d;
      dx.push_back(2 * d * scale);
      added.push_back(dx.back() + static_cast<double>(before[at(i)]));
    }
    double with_one_thread = -1;
    const auto run = [&](Write write) {
      return [&, write](Stream& s) {
        double got = 5;
        s.kernels().elementwise.squared_error_forward(s, {count, x.data(), target.data(), &got});
        EXPECT_NEAR(got, loss, 1e-12 * loss);
        if (s.pool().threads() == 1) with_one_thread = got;
        EXPECT_EQ(got, with_one_thread);
        Floats out = before;
        s.kernels().elementwise.squared_error_backward(
            s, {count, x.data(), target.data(), &scale, out.data(), write});
        return out;
      };
    };
    expect_everywhere(run(Write::assign), dx, 2e-7);
    expect_everywhere(run(Write::add), added, 2e-7);
  }
}

TEST(Elementwise, InBf16EveryResultIsThatOfF32RoundedOnce) {
  for (Index count : {Index{1}, Index{33}, Index{20011}})
    for (Write write : {Write::assign, Write::add})
      expect_rounded_once([&](Stream& s, Arrays& a) {
        const ElementwiseKernels& k = s.kernels().elementwise;
        const DType t = a.dtype;
        const void* x = a.put(random_values(count, "x"));
        const void* y = a.put(random_values(count, "y"));
        const double scale = 0.37;
        k.add(s, {count, x, y, a.put(Floats(at(count))), t});
        const StepScalars scalars{.step = 5};
        k.dropout(s, {count,
                      6,
                      0.3f,
                      {random_key(3, "dropout"), &scalars},
                      x,
                      a.put(random_values(count, "kept")),
                      write,
                      t});
        k.squared_error_backward(
            s, {count, x, y, &scale, a.put(random_values(count, "dx")), write, t});
        double loss = 0;
        k.squared_error_forward(s, {count, x, y, &loss, t});
        a.put_f32({static_cast<float>(loss)});
      });
}

TEST(Elementwise, InBf16ABiasIsAddedRoundedOnceAndItsGradientIsThatOfF32) {
  for (const auto& [rows, channels] : {std::pair<Index, Index>{1, 1}, {33, 31}, {301, 384}})
    expect_rounded_once([&, n = rows, m = channels](Stream& s, Arrays& a) {
      const void* x = a.put(random_values(n * m, "x"));
      const void* bias = a.put(random_values(m, "bias"));
      s.kernels().elementwise.bias_add(s, {n, m, x, bias, a.put(Floats(at(n * m))), a.dtype});
      float* dbias = a.put_f32(random_values(m, "dbias"));
      s.kernels().elementwise.bias_backward(s, {n, m, x, dbias, a.dtype});
    });
}

TEST(Elementwise, RefusesOtherTypes) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  double x = 1;
  EXPECT_THROW(stream->kernels().elementwise.add(*stream, {1, &x, &x, &x, DType::f64}), Error);
}

}  // namespace
}  // namespace trireme
