#include "tests/kernels/everywhere.h"

namespace trireme {
namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

const std::vector<Index> counts = {1, 31, 33, 70001};

TEST(AdamW, MatchesThePaper) {
  for (Index count : counts) {
    const Floats x = random_values(count, "x"), g = random_values(count, "g"),
                 m = random_values(count, "m"), v = random_values(count, "v", 0, 1);
    const float gradient_scale = 0.7f;
    Doubles expected[3];
    for (Index i = 0; i < count; ++i) {
      const double grad = static_cast<double>(g[at(i)]) * static_cast<double>(gradient_scale);
      const double m1 = 0.9 * static_cast<double>(m[at(i)]) + 0.1 * grad;
      const double v1 = 0.95 * static_cast<double>(v[at(i)]) + 0.05 * grad * grad;
      expected[0].push_back(static_cast<double>(x[at(i)]) * (1 - 0.01 * 0.1) -
                            0.01 * (m1 / 0.271) / (std::sqrt(v1 / 0.142625) + 1e-8));
      expected[1].push_back(m1);
      expected[2].push_back(v1);
    }
    for (int which : {0, 1, 2})
      expect_everywhere(
          [&](Stream& s) {
            Floats out[3] = {x, m, v};
            s.kernels().optimizer.adamw(
                s, {count, out[0].data(), g.data(), out[1].data(), out[2].data(), 0.01f, 0.9f,
                    0.95f, 1e-8f, 0.1f, 0.271f, 0.142625f, &gradient_scale});
            return out[which];
          },
          expected[which], 1e-6);
  }
}

TEST(Sgd, MatchesItsFormulaWithAndWithoutMomentum) {
  for (Index count : counts)
    for (bool momentum : {false, true}) {
      const Floats x = random_values(count, "x"), g = random_values(count, "g"),
                   b = random_values(count, "b");
      const float gradient_scale = 0.7f;
      Doubles parameters, buffers;
      for (Index i = 0; i < count; ++i) {
        const double grad =
            static_cast<double>(g[at(i)]) * 0.7 + 0.1 * static_cast<double>(x[at(i)]);
        const double step = momentum ? 0.9 * static_cast<double>(b[at(i)]) + grad : grad;
        buffers.push_back(momentum ? step : static_cast<double>(b[at(i)]));
        parameters.push_back(static_cast<double>(x[at(i)]) - 0.01 * step);
      }
      const auto run = [&](Stream& s, bool buffer) {
        Floats out = x, velocity = b;
        s.kernels().optimizer.sgd(
            s, {count, out.data(), g.data(), momentum ? velocity.data() : nullptr, 0.01f,
                momentum ? 0.9f : 0.0f, 0.1f, &gradient_scale});
        return buffer ? velocity : out;
      };
      expect_everywhere([&](Stream& s) { return run(s, false); }, parameters, 3e-7);
      expect_everywhere([&](Stream& s) { return run(s, true); }, buffers, 3e-7);
    }
}

TEST(SumOfSquares, AddsInFp64WhateverTheThreads) {
  for (Index count : {Index{0}, Index{1}, Index{33}, Index{70001}}) {
    const Floats x = random_values(count, "x");
    double expected = 2.5;
    for (float v : x) expected += static_cast<double>(v) * static_cast<double>(v);
    double with_one_thread = 0;
    for (InstructionSet set : instruction_sets())
      for (int threads : {1, 2, 3}) {
        const auto device = open_cpu({threads, set});
        const auto stream = device->make_stream();
        double sum = 2.5;
        stream->kernels().optimizer.add_sum_of_squares(*stream, x.data(), count, &sum);
        EXPECT_NEAR(sum, expected, 1e-12 * expected);
        if (threads == 1) with_one_thread = sum;
        EXPECT_EQ(sum, with_one_thread);
      }
  }
}

TEST(SumOfSquares, DoesNotOverflowWhereTheSquareWould) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const Floats x(100, 1e30f);
  double sum = 0;
  stream->kernels().optimizer.add_sum_of_squares(*stream, x.data(), 100, &sum);
  EXPECT_NEAR(sum, 1e62, 1e56);
}

}  // namespace
}  // namespace trireme
