// Rows of a table picked by token, vocabulary-parallel; and learned positions.
#pragma once

#include "trireme/core/device.h"

namespace trireme {

/// y[r] = table[token - first] when first <= token < first + rows_of_table, else zeros (another
/// tensor rank has it).
struct EmbeddingForward {
  Index rows, channels;
  const std::int32_t* tokens;  // (rows)
  const void* table;           // (rows_of_table, channels)
  Index first, rows_of_table;
  void* y;                   // (rows, channels)
  DType dtype = DType::f32;  // type of table and y
};
/// dtable[token - first] += dy[r], summed in the order of rows whatever the number of threads.
struct EmbeddingBackward {
  Index rows, channels;
  const std::int32_t* tokens;
  const void* dy;
  float* dtable;
  Index first, rows_of_table;
  void* workspace;           // embedding_backward_workspace_bytes(), aligned to 16
  DType dtype = DType::f32;  // type of dy
};
/// y[r] = x[r] + table[(first_row + r) % sequence]. `first_row` is not zero where rows are split
/// (sequence parallel).
struct PositionForward {
  Index rows, channels, sequence, first_row;
  const void* x;
  const void* table;  // (sequence, channels)
  void* y;            // may be x
  DType dtype = DType::f32;
};
struct PositionBackward {
  Index rows, channels, sequence, first_row;
  const void* dy;
  float* dtable;             // added to, in the order of rows
  DType dtype = DType::f32;  // type of dy
};

struct EmbeddingKernels {
  void (*forward)(Stream&, const EmbeddingForward&);
  void (*backward)(Stream&, const EmbeddingBackward&);
  void (*position_forward)(Stream&, const PositionForward&);
  void (*position_backward)(Stream&, const PositionBackward&);
};

/// Bytes of EmbeddingBackward::workspace, to sort `rows` rows by token.
Index embedding_backward_workspace_bytes(const DeviceTraits&, Index rows);

}  // namespace trireme
