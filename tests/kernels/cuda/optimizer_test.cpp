// AdamW, SGD and the decision about a step on a GPU agree with those on the CPU.
#include "trireme/kernels/optimizer.h"

#include <bit>

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

// Less than a pack, odd, more than a tile, exactly one.
const std::vector<Index> range_counts = {0, 1, 3, 4, 1027, 5000, ListedRange::tile};

/// Ranges of all range_counts, `gap` elements apart; parameters begin `parameter_shift` elements
/// off, state `state_shift`.
std::vector<UpdateRange> ranges_of(Index gap, Index parameter_shift, Index state_shift) {
  std::vector<UpdateRange> ranges;
  Index begin = gap;
  for (const Index count : range_counts) {
    ranges.push_back(
        {{begin, count}, begin + parameter_shift, begin + state_shift, count % 2 == 0 ? 0.1 : 0.0});
    begin += count + gap;
  }
  return ranges;
}
constexpr Index elements = 16000;

template <class Range>
DeviceList<Range> put_list(Bench& b, std::vector<Range> ranges) {
  std::byte* memory = b.put(std::vector<std::byte>(static_cast<std::size_t>(list_bytes(ranges))));
  return upload(ranges, b.stream(), memory);
}

const StepDecision* put_decision(Bench& b, const StepDecision& d) {
  return reinterpret_cast<StepDecision*>(
      b.put(std::vector<double>{d.norm, d.clip_coefficient, std::bit_cast<double>(d.skip)}));
}

/// The list without its first range: what one bucket of several is.
DeviceList<UpdateRange> without_first(const DeviceList<UpdateRange>& list,
                                      const std::vector<UpdateRange>& ranges) {
  return {list.ranges + 1, list.count - 1, list.tiles - ranges.front().tiles()};
}

struct UpdateCase {
  Index gap, parameter_shift, state_shift, array_shift;
};
// All aligned; ranges at odd places, alike in all arrays or not; arrays at odd addresses.
const std::vector<UpdateCase> cases = {{16, 0, 0, 0}, {5, 0, 0, 0},  {5, 0, 4, 0},  {8, 0, 1, 0},
                                       {16, 0, 0, 1}, {16, 4, 0, 0}, {16, 3, 3, 0}, {5, 4, 4, 0}};

template <class F>
void in_every_case(Bench& b, F f) {
  for (const UpdateCase& c : cases) {
    const std::vector<UpdateRange> ranges = ranges_of(c.gap, c.parameter_shift, c.state_shift);
    const DeviceList<UpdateRange> list = put_list(b, ranges);
    f(list, c.array_shift, false);
    f(without_first(list, ranges), c.array_shift, true);
  }
}

TEST(CudaOptimizer, AdamWAgreesWithAndWithoutACopyInBf16) {
  expect_agree(
      [](Bench& b) {
        in_every_case(b, [&](const DeviceList<UpdateRange>& list, Index shift, bool copies) {
          AdamW p{};
          p.list = list;
          p.parameter = b.put(random_floats(elements, "p"), shift);
          p.gradient = b.put(random_floats(elements, "g"));
          p.first_moment = b.put(random_floats(elements, "m", -0.1f, 0.1f));
          p.second_moment = b.put(random_floats(elements, "v", 0, 0.1f));
          p.decision = put_decision(b, {2, 0.5, 0});
          if (copies)
            p.compute_copy =
                static_cast<Bf16*>(b.put(random_floats(elements, "c"), DType::bf16, shift));
          p.scalars = put_scalars(b, {.learning_rate = 0.01f,
                                      .corrected_rate = 0.01f / (1 - 0.9f * 0.9f),
                                      .second_correction = 1 / (1 - 0.95f * 0.95f)});
          p.beta1 = 0.9f;
          p.beta2 = 0.95f;
          p.epsilon = 1e-8f;
          b.kernels().optimizer.adamw(b.stream(), p);
        });
      },
      1e-6);
}

TEST(CudaOptimizer, SgdAgreesWithAndWithoutMomentum) {
  expect_agree(
      [](Bench& b) {
        for (const bool momentum : {false, true})
          in_every_case(b, [&](const DeviceList<UpdateRange>& list, Index shift, bool copies) {
            Sgd p{};
            p.list = list;
            p.parameter = b.put(random_floats(elements, "p"), shift);
            p.gradient = b.put(random_floats(elements, "g"));
            p.momentum_buffer = momentum ? b.put(random_floats(elements, "b")) : nullptr;
            p.scalars = put_scalars(b, {.learning_rate = 0.1f});
            p.momentum = momentum ? 0.9f : 0.0f;
            p.decision = put_decision(b, {2, 0.5, 0});
            if (copies)
              p.compute_copy = static_cast<Bf16*>(b.put(random_floats(elements, "c"), DType::bf16));
            b.kernels().optimizer.sgd(b.stream(), p);
          });
      },
      3e-7);
}

TEST(CudaOptimizer, ASkippedStepChangesNothing) {
  expect_agree(
      [](Bench& b) {
        const DeviceList<UpdateRange> list = put_list(b, ranges_of(16, 0, 0));
        AdamW p{};
        p.list = list;
        p.parameter = b.put(random_floats(elements, "p"));
        p.gradient = p.first_moment = p.second_moment = b.put(random_floats(elements, "g"));
        p.scalars = put_scalars(b, {.learning_rate = 0.1f});
        p.decision = put_decision(b, {HUGE_VAL, 1, 1});
        b.kernels().optimizer.adamw(b.stream(), p);
        b.kernels().optimizer.sgd(
            b.stream(), {list, p.parameter, p.gradient, nullptr, 0, p.scalars, p.decision});
      },
      0);
}

TEST(CudaOptimizer, SumsOfSquaresAgreeInFp64) {
  expect_agree(
      [](Bench& b) {
        for (const UpdateCase& c : cases) {
          std::vector<ListedRange> ranges;
          for (const UpdateRange& range : ranges_of(c.gap, 0, 0)) ranges.push_back(range);
          const DeviceList<ListedRange> list = put_list(b, ranges);
          const float* x = b.put(random_floats(elements, "x"), c.array_shift);
          double* sum = b.put(std::vector<double>{0.125, 0.125});
          b.kernels().optimizer.sum_of_squares(b.stream(), {list, x, sum});
          b.kernels().optimizer.sum_of_squares(b.stream(), {{}, x, sum + 1});
        }
      },
      1e-14);  // of the largest sum
}

TEST(CudaOptimizer, MoreTilesThanPartsAreAllAdded) {
  expect_agree(
      [](Bench& b) {
        std::vector<ListedRange> ranges;
        for (Index i = 0; i < 2500; ++i) ranges.push_back({i % 7, 1 + i % 3});
        const float* x = b.put(random_floats(10, "x"));
        double* sum = b.put(std::vector<double>{0});
        b.kernels().optimizer.sum_of_squares(b.stream(), {put_list(b, ranges), x, sum});
      },
      1e-14);
}

TEST(CudaOptimizer, DecisionsAgree) {
  expect_agree(
      [](Bench& b) {
        for (const double sum : {0.0, 0.25, 16.0, HUGE_VAL})
          for (const double max_norm : {0.0, 1.0}) {
            const double* s = b.put(std::vector<double>{sum});
            double* decision = b.put(std::vector<double>{7, 7, 7});
            b.kernels().optimizer.decide(b.stream(),
                                         {s, max_norm, reinterpret_cast<StepDecision*>(decision)});
          }
      },
      1e-15);
}

TEST(CudaOptimizer, WhatCannotBeIsRefused) {
  Bench b(open_gpu());
  EXPECT_THROW(b.kernels().optimizer.adamw(b.stream(), AdamW{}), Error);  // no scalars
  const StepScalars scalars{};
  AdamW p{};
  p.scalars = &scalars;
  EXPECT_THROW(b.kernels().optimizer.adamw(b.stream(), p), Error);  // no decision
  Sgd q{};
  EXPECT_THROW(b.kernels().optimizer.sgd(b.stream(), q), Error);
  const StepDecision decision{};
  q.scalars = &scalars;
  q.decision = &decision;
  q.momentum = 0.9f;
  EXPECT_THROW(b.kernels().optimizer.sgd(b.stream(), q), Error);  // no buffer
}

}  // namespace
}  // namespace trireme::test
