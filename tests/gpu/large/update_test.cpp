// The optimizer over 1.6e9 parameters: 28.8 GB of state, in ranges as a model has them.
#include <bit>

#include "trireme/kernels/optimizer.h"

#include "tests/gpu/large/large.h"

namespace trireme::test {
namespace {

constexpr Index width = 1000;  // of a row: no multiple of a tile

/// Three ranges of different lengths, or one: all of the bench's rows.
std::vector<UpdateRange> ranges_over(Index count) {
  std::vector<UpdateRange> ranges;
  Index begin = 0;
  for (const Index end : {count / 3 + 1, count / 2 + 5, count}) {
    ranges.push_back({{begin, end - begin}, begin, begin, 0.1});
    begin = end;
  }
  return ranges;
}

template <class Range>
DeviceList<Range> put_list(RowBench& b, std::vector<Range> ranges) {
  return upload(ranges, b.stream(), static_cast<std::byte*>(b.scratch(list_bytes(ranges))));
}

TEST_P(OnLargeArrays, AdamW) {
  expect_rows_agree({sized<Index>(1'600'000, 80),
                     {{"parameter", width, DType::f32},
                      {"gradient", width, DType::f32},
                      {"first moment", width, DType::f32, -0.1f, 0.1f},
                      {"second moment", width, DType::f32, 0, 0.1f},
                      {"copy", width, DType::bf16}},
                     [](RowBench& b) {
                       trireme::AdamW p{};
                       p.list = put_list(b, ranges_over(b.rows() * width));
                       p.parameter = b.array<float>(0);
                       p.gradient = b.array<float>(1);
                       p.first_moment = b.array<float>(2);
                       p.second_moment = b.array<float>(3);
                       p.compute_copy = b.array<Bf16>(4);
                       p.decision = reinterpret_cast<const StepDecision*>(
                           b.put(std::vector<double>{2, 0.5, std::bit_cast<double>(Index{0})}));
                       p.scalars = put_scalars(b, {.learning_rate = 0.01f,
                                                   .corrected_rate = 0.01f / (1 - 0.9f * 0.9f),
                                                   .second_correction = 1 / (1 - 0.95f * 0.95f)});
                       p.beta1 = 0.9f;
                       p.beta2 = 0.95f;
                       p.epsilon = 1e-8f;
                       b.kernels().optimizer.adamw(b.stream(), p);
                     },
                     1e-6});
}

TEST_P(OnLargeArrays, SumOfSquares) {
  expect_rows_agree({sized<Index>(2'200'000, 80),
                     {{"gradient", width, DType::f32, -1, 1, Elsewhere::zeros}},
                     [](RowBench& b) {
                       std::vector<ListedRange> ranges;
                       for (const UpdateRange& range : ranges_over(b.rows() * width))
                         ranges.push_back(range);
                       double* sum = b.put(std::vector<double>{7});
                       b.kernels().optimizer.sum_of_squares(
                           b.stream(), {put_list(b, ranges), b.array<float>(0), sum});
                     },
                     1e-12});
}

}  // namespace
}  // namespace trireme::test
