// Token and position embedding. Gradients are shared out to threads by channels or by table rows,
// never by rows of dy, so every element of the table is added to by one thread, in the order of
// rows.
#include <cstring>

#include "kernels/cpu/cpu_device.h"

namespace trireme {

namespace {

void forward(Stream& stream, const EmbeddingForward& p) {
  require(p.rows >= 0 && p.channels >= 1, "embedding of (", p.rows, ", ", p.channels, ")");
  const std::size_t row_bytes = static_cast<std::size_t>(p.channels) * sizeof(float);
  parallel_for(stream, p.rows, grain_rows(p.channels), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const Index at = p.tokens[row] - p.first;
      float* y = p.y + row * p.channels;
      if (at >= 0 && at < p.rows_of_table)
        std::memcpy(y, p.table + at * p.channels, row_bytes);
      else
        std::memset(y, 0, row_bytes);
    }
  });
}

void backward(Stream& stream, const EmbeddingBackward& p) {
  require(p.rows >= 0 && p.channels >= 1, "embedding gradient of (", p.rows, ", ", p.channels, ")");
  const auto add = loops_of(stream).elementwise.add;
  parallel_for(stream, p.channels, std::max<Index>(16, grain_rows(p.rows)),
               [&](Index begin, Index end) {
                 for (Index row = 0; row < p.rows; ++row) {
                   const Index at = p.tokens[row] - p.first;
                   if (at < 0 || at >= p.rows_of_table) continue;
                   float* to = p.dtable + at * p.channels;
                   add(to, p.dy + row * p.channels, to, begin, end);
                 }
               });
}

void check(Index rows, Index channels, Index sequence, Index first_row) {
  require(rows >= 0 && channels >= 1 && sequence >= 1 && first_row >= 0, "positions of (", rows,
          ", ", channels, ") in sequences of ", sequence, " from row ", first_row);
}

void position_forward(Stream& stream, const PositionForward& p) {
  check(p.rows, p.channels, p.sequence, p.first_row);
  const auto add = loops_of(stream).elementwise.add;
  parallel_for(stream, p.rows, grain_rows(p.channels), [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row)
      add(p.x + row * p.channels, p.table + (p.first_row + row) % p.sequence * p.channels,
          p.y + row * p.channels, 0, p.channels);
  });
}

void position_backward(Stream& stream, const PositionBackward& p) {
  check(p.rows, p.channels, p.sequence, p.first_row);
  const auto add = loops_of(stream).elementwise.add;
  parallel_for(stream, p.sequence, grain_rows(p.channels), [&](Index begin, Index end) {
    for (Index position = begin; position < end; ++position) {
      const Index ahead = position - p.first_row % p.sequence;
      float* to = p.dtable + position * p.channels;
      for (Index row = ahead < 0 ? ahead + p.sequence : ahead; row < p.rows; row += p.sequence)
        add(to, p.dy + row * p.channels, to, 0, p.channels);
    }
  });
}

}  // namespace

const EmbeddingKernels cpu_embedding_kernels = {forward, backward, position_forward,
                                                position_backward};

}  // namespace trireme
