#include "tests/kernels/cuda/twins.h"

namespace trireme::test {
namespace {

const std::vector<Index> shifts = {0, 1};

/// A few tokens often, most once or never, some outside of [first, first + 40).
std::vector<std::int32_t> tokens_of(Index rows) {
  std::vector<std::int32_t> tokens;
  for (Index r = 0; r < rows; ++r)
    tokens.push_back(static_cast<std::int32_t>(r % 5 == 0 ? 12 : r * 7919 % 61));
  return tokens;
}

// Less than a pack, odd, several blocks of channels, several tiles of tokens.
const std::vector<std::pair<Index, Index>> shapes = {{0, 4},   {1, 1},    {33, 5},  {70, 36},
                                                     {9, 516}, {40, 131}, {2100, 8}};

TEST(CudaEmbedding, RowsArePickedExactly) {
  expect_twins(
      [](Bench& b) {
        for (const auto& [rows, channels] : shapes)
          for (const Index shift : shifts) {
            const std::int32_t* tokens = b.put(tokens_of(rows));
            const float* table = b.put(random_floats(40 * channels, "table"), shift);
            float* y = b.put(random_floats(rows * channels, "y"));
            b.kernels().embedding.forward(b.stream(), {rows, channels, tokens, table, 7, 40, y});
          }
      },
      0);
}

TEST(CudaEmbedding, GradientsAreAddedInTheOrderOfRows) {
  expect_twins(
      [](Bench& b) {
        for (const auto& [rows, channels] : shapes)
          for (const Index shift : shifts) {
            const std::int32_t* tokens = b.put(tokens_of(rows));
            const float* dy = b.put(random_floats(rows * channels, "dy"), shift);
            float* dtable = b.put(random_floats(40 * channels, "dtable"));
            b.kernels().embedding.backward(b.stream(), {rows, channels, tokens, dy, dtable, 7, 40});
          }
      },
      0);  // to the last bit
}

TEST(CudaEmbedding, PositionsAndTheirGradientsAreExact) {
  expect_twins(
      [](Bench& b) {
        for (const Index first_row : {0, 3, 40})
          for (const Index channels : {1, 5, 36, 516})
            for (const Index shift : shifts) {
              const Index rows = 25, sequence = 7;
              float* x = b.put(random_floats(rows * channels, "x"), shift);
              float* table = b.put(random_floats(sequence * channels, "table"));
              float* y = b.put(random_floats(rows * channels, "y"));
              const EmbeddingKernels& k = b.kernels().embedding;
              k.position_forward(b.stream(), {rows, channels, sequence, first_row, x, table, y});
              k.position_forward(b.stream(), {rows, channels, sequence, first_row, x, table, x});
              k.position_backward(b.stream(), {rows, channels, sequence, first_row, x, table});
            }
      },
      0);
}

TEST(CudaEmbedding, WhatCannotBeIsRefused) {
  Bench b(open_gpu());
  const EmbeddingKernels& k = b.kernels().embedding;
  EXPECT_THROW(k.forward(b.stream(), EmbeddingForward{}), Error);
  EXPECT_THROW(k.backward(b.stream(), EmbeddingBackward{}), Error);
  EXPECT_THROW(k.position_forward(b.stream(), PositionForward{}), Error);
  EXPECT_THROW(k.position_backward(b.stream(), PositionBackward{}), Error);
}

}  // namespace
}  // namespace trireme::test
