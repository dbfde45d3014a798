// Embeddings and their gradients on a GPU agree with those on the CPU.
#include "trireme/kernels/embedding.h"

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

/// A few tokens often, most once or never, some outside of [first, first + 40).
std::vector<std::int32_t> tokens_of(Index rows) {
  std::vector<std::int32_t> tokens;
  for (Index r = 0; r < rows; ++r)
    tokens.push_back(static_cast<std::int32_t>(r % 5 == 0 ? 12 : r * 7919 % 61));
  return tokens;
}

// Less than a pack, odd, several blocks of channels, several runs of rows to merge, an odd number
// of them.
const std::vector<std::pair<Index, Index>> embedding_shapes = {
    {0, 4}, {1, 1}, {33, 5}, {70, 36}, {9, 516}, {40, 131}, {5000, 8}};

TEST(CudaEmbedding, RowsArePickedExactly) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          for (const auto& [rows, channels] : embedding_shapes)
            for (const Index shift : shifts) {
              const std::int32_t* tokens = b.put(tokens_of(rows));
              const void* table = b.put(random_floats(40 * channels, "table"), dtype, shift);
              void* y = b.put(random_floats(rows * channels, "y"), dtype);
              b.kernels().embedding.forward(b.stream(),
                                            {rows, channels, tokens, table, 7, 40, y, dtype});
            }
        },
        0, exactly);
}

/// Both devices get what a GPU asks for; what lies there afterwards is no one's concern.
struct Workspace {
  std::vector<Buffer> memory;
  void* of(Bench& b, Index rows) {
    Device& device = b.stream().device();
    const Index bytes = embedding_backward_workspace_bytes(device.traits(), rows);
    return memory.emplace_back(device.allocate(bytes)).data();
  }
};

TEST(CudaEmbedding, GradientsAreAddedInTheOrderOfRows) {
  for (const DType dtype : storage_types) {
    Workspace workspace;
    expect_agree(
        [&](Bench& b) {
          for (const auto& [rows, channels] : embedding_shapes)
            for (const Index shift : shifts) {
              const std::int32_t* tokens = b.put(tokens_of(rows));
              const void* dy = b.put(random_floats(rows * channels, "dy"), dtype, shift);
              float* dtable = b.put(random_floats(40 * channels, "dtable"));
              b.kernels().embedding.backward(b.stream(), {rows, channels, tokens, dy, dtable, 7, 40,
                                                          workspace.of(b, rows), dtype});
            }
        },
        0);  // to the last bit
  }
}

// All rows one token; none of this rank; whole tiles; a last run without another to merge with.
TEST(CudaEmbedding, GradientsOfOneTokenOrOfNoneAreAddedInTheOrderOfRows) {
  Workspace workspace;
  expect_agree(
      [&](Bench& b) {
        for (const Index rows : {1, 33, 1024, 2049})
          for (const std::int32_t token : {3, 99, -1}) {
            const std::int32_t* tokens =
                b.put(std::vector<std::int32_t>(static_cast<std::size_t>(rows), token));
            const float* dy = b.put(random_floats(rows * 4, "dy"));
            float* dtable = b.put(random_floats(5 * 4, "dtable"));
            b.kernels().embedding.backward(
                b.stream(), {rows, 4, tokens, dy, dtable, 0, 5, workspace.of(b, rows)});
          }
      },
      0);
}

TEST(CudaEmbedding, PositionsAndTheirGradientsAreExact) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          for (const Index first_row : {0, 3, 40})
            for (const Index channels : {1, 5, 36, 516, 1032})
              for (const Index shift : shifts) {
                const Index rows = 25, sequence = 7;
                void* x = b.put(random_floats(rows * channels, "x"), dtype, shift);
                const void* table = b.put(random_floats(sequence * channels, "table"), dtype);
                float* dtable = b.put(random_floats(sequence * channels, "dtable"));
                void* y = b.put(random_floats(rows * channels, "y"), dtype);
                const EmbeddingKernels& k = b.kernels().embedding;
                k.position_forward(b.stream(),
                                   {rows, channels, sequence, first_row, x, table, y, dtype});
                k.position_forward(b.stream(),
                                   {rows, channels, sequence, first_row, x, table, x, dtype});
                k.position_backward(b.stream(),
                                    {rows, channels, sequence, first_row, x, dtable, dtype});
              }
        },
        0, exactly);
}

TEST(CudaEmbedding, WhatCannotBeIsRefused) {
  Bench b(open_gpu());
  const EmbeddingKernels& k = b.kernels().embedding;
  EXPECT_THROW(k.forward(b.stream(), EmbeddingForward{}), Error);
  EXPECT_THROW(k.backward(b.stream(), EmbeddingBackward{}), Error);
  EmbeddingBackward without_workspace{};
  without_workspace.rows = without_workspace.channels = 1;
  EXPECT_THROW(k.backward(b.stream(), without_workspace), Error);
  EXPECT_THROW(k.position_forward(b.stream(), PositionForward{}), Error);
  EXPECT_THROW(k.position_backward(b.stream(), PositionBackward{}), Error);
}

}  // namespace
}  // namespace trireme::test
