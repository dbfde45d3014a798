// Token and position embedding. Gradients are divided among threads by channels or by table rows,
// never by rows of dy, so every element of the table is added to by one thread, in the order of
// rows.
#include "kernels/embedding.h"

#include <cstring>

#include "kernels/cpu/cpu_device.h"
#include "kernels/elementwise.h"

namespace trireme::kernels {

namespace {

void forward(Stream& stream, const EmbeddingForward& p) {
  check_embedding(p);
  const Index row_bytes = p.channels * size_bytes(p.dtype);
  const auto* table = static_cast<const std::byte*>(p.table);
  auto* y = static_cast<std::byte*>(p.y);
  parallel_for(stream, p.rows, grain_rows(p.channels), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const Index at = p.tokens[row] - p.first;
      if (at >= 0 && at < p.rows_of_table)
        std::memcpy(y + row * row_bytes, table + at * row_bytes,
                    static_cast<std::size_t>(row_bytes));
      else
        std::memset(y + row * row_bytes, 0, static_cast<std::size_t>(row_bytes));
    }
  });
}

/// Row `row` of a matrix of `channels` columns.
const void* row_of(const void* x, Index row, Index channels, DType dtype) {
  return static_cast<const std::byte*>(x) + row * channels * size_bytes(dtype);
}

void backward(Stream& stream, const EmbeddingBackward& p) {
  check_embedding(stream, p);
  const auto accumulate = loops_of<ArrayLoops>(stream).accumulate;
  parallel_for(stream, p.channels, std::max<Index>(16, grain_rows(p.rows)),
               [&](Index begin, Index end) {
                 for (Index row = 0; row < p.rows; ++row) {
                   const Index at = p.tokens[row] - p.first;
                   if (at < 0 || at >= p.rows_of_table) continue;
                   accumulate(p.dtable + at * p.channels, row_of(p.dy, row, p.channels, p.dtype),
                              p.dtype, begin, end);
                 }
               });
}

void position_forward(Stream& stream, const PositionForward& p) {
  check_positions(p);
  const auto add = loops_of<ElementwiseLoops>(stream).add;
  parallel_for(stream, p.rows, grain_rows(p.channels), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const Index position = (p.first_row + row) % p.sequence;
      add({p.channels, row_of(p.x, row, p.channels, p.dtype),
           row_of(p.table, position, p.channels, p.dtype),
           static_cast<std::byte*>(p.y) + row * p.channels * size_bytes(p.dtype), p.dtype},
          0, p.channels);
    }
  });
}

void position_backward(Stream& stream, const PositionBackward& p) {
  check_positions(p);
  const auto accumulate = loops_of<ArrayLoops>(stream).accumulate;
  parallel_for(stream, p.sequence, grain_rows(p.channels), [&](Index begin, Index end) {
    for (Index position = begin; position < end; ++position) {
      const Index ahead = position - p.first_row % p.sequence;
      float* to = p.dtable + position * p.channels;
      for (Index row = ahead < 0 ? ahead + p.sequence : ahead; row < p.rows; row += p.sequence)
        accumulate(to, row_of(p.dy, row, p.channels, p.dtype), p.dtype, 0, p.channels);
    }
  });
}

}  // namespace

const EmbeddingKernels& cpu_table(const EmbeddingKernels*) {
  static constexpr EmbeddingKernels kernels = {forward, backward, position_forward,
                                               position_backward};
  return kernels;
}

}  // namespace trireme::kernels
