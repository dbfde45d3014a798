// AdamW, SGD, the sum of squares and the decision about a step on CPUs, against their formulas.
#include "trireme/kernels/optimizer.h"

#include "runtime/core/at.h"
#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

/// Two groups with gaps before, between and after them; gradients, parameters and state begin at
/// different places.
std::vector<UpdateRange> two_ranges(Index count) {
  return {{{2, count}, 3, 5, 0.1}, {{count + 7, 9}, count + 9, count + 6, 0}};
}
Index elements(Index count) { return count + 20; }

/// f(i in the gradients, i in the parameters, i in the state buffers, weight decay) for all
/// elements of the ranges.
template <class F>
void for_each(const std::vector<UpdateRange>& ranges, F f) {
  for (const UpdateRange& r : ranges)
    for (Index i = 0; i < r.count; ++i)
      f(at(r.begin + i), at(r.parameter_begin + i), at(r.state_begin + i), r.weight_decay);
}

DeviceList<UpdateRange> list_of(const std::vector<UpdateRange>& ranges) {
  return {ranges.data(), static_cast<Index>(ranges.size())};
}

const std::vector<Index> counts = {1, 31, 33, 70001};
const StepDecision clipped{1, 0.7, 0}, skipped{HUGE_VAL, 1, 1};

const StepScalars rates{
    .learning_rate = 0.01f, .corrected_rate = 0.01f / 0.271f, .second_correction = 1 / 0.142625f};

AdamW adamw(const std::vector<UpdateRange>& ranges, float* x, const float* g, float* m, float* v,
            const StepDecision* decision) {
  return {list_of(ranges), x, g, m, v, 0.9f, 0.95f, 1e-8f, &rates, decision};
}

TEST(AdamW, MatchesThePaperInEveryRangeAndTouchesNothingElse) {
  for (Index count : counts) {
    const std::vector<UpdateRange> ranges = two_ranges(count);
    const Index n = elements(count);
    const Floats x = random_values(n, "x"), g = random_values(n, "g"), m = random_values(n, "m"),
                 v = random_values(n, "v", 0, 1);
    Doubles expected[3] = {to_double(x), to_double(m), to_double(v)};
    for_each(ranges, [&](std::size_t from, std::size_t i, std::size_t s, double decay) {
      const double grad = static_cast<double>(g[from]) * 0.7;
      expected[1][s] = 0.9 * static_cast<double>(m[s]) + 0.1 * grad;
      expected[2][s] = 0.95 * static_cast<double>(v[s]) + 0.05 * grad * grad;
      expected[0][i] =
          static_cast<double>(x[i]) * (1 - 0.01 * decay) -
          0.01 * (expected[1][s] / 0.271) / (std::sqrt(expected[2][s] / 0.142625) + 1e-8);
    });
    for (int which : {0, 1, 2})
      expect_everywhere(
          [&](Stream& s) {
            Floats out[3] = {x, m, v};
            s.kernels().optimizer.adamw(
                s, adamw(ranges, out[0].data(), g.data(), out[1].data(), out[2].data(), &clipped));
            return out[which];
          },
          expected[which], 1e-6);
  }
}

TEST(Sgd, MatchesItsFormulaWithAndWithoutMomentum) {
  for (Index count : counts)
    for (bool momentum : {false, true}) {
      const std::vector<UpdateRange> ranges = two_ranges(count);
      const Index n = elements(count);
      const Floats x = random_values(n, "x"), g = random_values(n, "g"), b = random_values(n, "b");
      Doubles parameters = to_double(x), buffers = to_double(b);
      for_each(ranges, [&](std::size_t from, std::size_t i, std::size_t s, double decay) {
        const double grad = static_cast<double>(g[from]) * 0.7 + decay * static_cast<double>(x[i]);
        const double step = momentum ? 0.9 * static_cast<double>(b[s]) + grad : grad;
        if (momentum) buffers[s] = step;
        parameters[i] = static_cast<double>(x[i]) - 0.01 * step;
      });
      const auto run = [&](Stream& s, bool buffer) {
        Floats out = x, velocity = b;
        s.kernels().optimizer.sgd(
            s, {list_of(ranges), out.data(), g.data(), momentum ? velocity.data() : nullptr,
                momentum ? 0.9f : 0.0f, &rates, &clipped});
        return buffer ? velocity : out;
      };
      expect_everywhere([&](Stream& s) { return run(s, false); }, parameters, 3e-7);
      expect_everywhere([&](Stream& s) { return run(s, true); }, buffers, 3e-7);
    }
}

TEST(Optimizers, WriteWhatTheyAssignToACopyInBf16) {
  for (InstructionSet set : instruction_sets()) {
    const auto device = open_cpu({2, set});
    const auto stream = device->make_stream();
    const std::vector<UpdateRange> ranges = two_ranges(20001);
    const Index n = elements(20001);
    const Floats g = random_values(n, "g");
    Floats x = random_values(n, "x"), m = g, v(g.size(), 0.5f);
    const std::vector<Bf16> before = bf16_of(random_values(n, "copy"));
    const auto check = [&](const std::vector<Bf16>& copy) {
      std::vector<Bf16> expected = before;
      for_each(ranges, [&](std::size_t to, std::size_t i, std::size_t, double) {
        expected[to] = to_bf16(x[i]);
      });
      EXPECT_TRUE(same_bits(floats_of(copy), floats_of(expected))) << name(set);
    };
    std::vector<Bf16> copy = before;
    AdamW p = adamw(ranges, x.data(), g.data(), m.data(), v.data(), &clipped);
    p.compute_copy = copy.data();
    stream->kernels().optimizer.adamw(*stream, p);
    check(copy);
    copy = before;
    stream->kernels().optimizer.sgd(*stream, {list_of(ranges), x.data(), g.data(), m.data(), 0.9f,
                                              &rates, &clipped, copy.data()});
    check(copy);
  }
}

TEST(Optimizers, ChangeNothingWhenTheStepIsSkipped) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const std::vector<UpdateRange> ranges = two_ranges(31);
  const Floats before = random_values(elements(31), "x", 0, 1);
  Floats x = before, m = before, v = before;
  const OptimizerKernels& k = stream->kernels().optimizer;
  k.adamw(*stream, adamw(ranges, x.data(), before.data(), m.data(), v.data(), &skipped));
  k.sgd(*stream, {list_of(ranges), x.data(), before.data(), m.data(), 0.9f, &rates, &skipped});
  EXPECT_TRUE(same_bits(x, before) && same_bits(m, before) && same_bits(v, before));
}

double sum_of_squares(Stream& stream, const Floats& x, const std::vector<ListedRange>& ranges) {
  double sum = 7;
  stream.kernels().optimizer.sum_of_squares(
      stream, {{ranges.data(), static_cast<Index>(ranges.size())}, x.data(), &sum});
  return sum;
}

TEST(SumOfSquares, AddsRangesInFp64WhateverTheThreads) {
  for (Index count : {Index{0}, Index{1}, Index{33}, Index{70001}}) {
    const Floats x = random_values(count + 30, "x");
    const std::vector<ListedRange> ranges = {{3, count}, {count + 11, 0}, {count + 12, 17}};
    double expected = 0;
    for (const ListedRange& r : ranges)
      for (Index i = r.begin; i < r.begin + r.count; ++i)
        expected += static_cast<double>(x[at(i)]) * static_cast<double>(x[at(i)]);
    double with_one_thread = 0;
    for (InstructionSet set : instruction_sets())
      for (int threads : {1, 2, 3}) {
        const auto device = open_cpu({threads, set});
        const auto stream = device->make_stream();
        const double sum = sum_of_squares(*stream, x, ranges);
        EXPECT_NEAR(sum, expected, 1e-12 * expected);
        if (threads == 1) with_one_thread = sum;
        EXPECT_EQ(sum, with_one_thread);
      }
  }
}

TEST(SumOfSquares, DoesNotOverflowWhereTheSquareWould) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  EXPECT_NEAR(sum_of_squares(*stream, Floats(100, 1e30f), {{0, 100}}), 1e62, 1e56);
}

TEST(StepDecision, ScalesOnlyWhatIsTooLongAndSkipsWhatIsNotFinite) {
  const auto device = open_cpu();
  const auto stream = device->make_stream();
  const auto decide = [&](double sum, double max_norm) {
    StepDecision decision;
    stream->kernels().optimizer.decide(*stream, {&sum, max_norm, &decision});
    return decision;
  };
  EXPECT_EQ(decide(16, 0).norm, 4);
  EXPECT_EQ(decide(16, 0).clip_coefficient, 1);
  EXPECT_EQ(decide(16, 0).skip, 0);
  EXPECT_EQ(decide(0, 1).clip_coefficient, 1);
  EXPECT_EQ(decide(0.25, 1).clip_coefficient, 1);
  EXPECT_NEAR(decide(16, 1).clip_coefficient, 0.25, 1e-6);
  EXPECT_NE(decide(HUGE_VAL, 1).skip, 0);
  EXPECT_NE(decide(std::nan(""), 1).skip, 0);
}

}  // namespace
}  // namespace trireme
