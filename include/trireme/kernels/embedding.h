// Rows of a table picked by token, vocabulary-parallel; and learned positions.
#pragma once

#include "trireme/core/device.h"

namespace trireme {

/// y[r] = table[token - first] when first <= token < first + rows_of_table, else zeros (another tensor rank has it).
struct EmbeddingForward {
  Index rows, channels;
  const std::int32_t* tokens;  // (rows)
  const float* table;          // (rows_of_table, channels)
  Index first, rows_of_table;
  float* y;  // (rows, channels)
};
/// dtable[token - first] += dy[r], summed in the order of rows whatever the number of threads.
struct EmbeddingBackward {
  Index rows, channels;
  const std::int32_t* tokens;
  const float* dy;
  float* dtable;
  Index first, rows_of_table;
};
/// y[r] = x[r] + table[(first_row + r) % sequence]. `first_row` is not zero where rows are split (sequence parallel).
struct PositionForward {
  Index rows, channels, sequence, first_row;
  const float* x;
  const float* table;  // (sequence, channels)
  float* y;            // may be x
};
struct PositionBackward {
  Index rows, channels, sequence, first_row;
  const float* dy;
  float* dtable;  // added to, in the order of rows
};

struct EmbeddingKernels {
  void (*forward)(Stream&, const EmbeddingForward&);
  void (*backward)(Stream&, const EmbeddingBackward&);
  void (*position_forward)(Stream&, const PositionForward&);
  void (*position_backward)(Stream&, const PositionBackward&);
};

}  // namespace trireme
