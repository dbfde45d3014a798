// What the versions of the embeddings share: the checks of their arguments.
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/embedding.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {

// Each check throws an Error that names the size, the pointer or the type that does not fit.

inline void check_embedding(const EmbeddingForward& p) {
  require(p.rows >= 0 && p.channels >= 1, "embedding of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "embedding");
}
inline void check_embedding(Stream& stream, const EmbeddingBackward& p) {
  require(p.rows >= 0 && p.channels >= 1, "embedding gradient of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "embedding gradient");
  const Index wanted = embedding_backward_workspace_bytes(stream.device().traits(), p.rows);
  require(wanted == 0 || p.workspace != nullptr, "the gradient of an embedding of ", p.rows,
          " rows needs ", wanted, " bytes of workspace on this device");
}
/// PositionForward, PositionBackward.
template <class Positions>
void check_positions(const Positions& p) {
  require(p.rows >= 0 && p.channels >= 1 && p.sequence >= 1 && p.first_row >= 0, "positions of (",
          p.rows, ", ", p.channels, ") in sequences of ", p.sequence, " from row ", p.first_row);
  check_storage(p.dtype, "positions");
}

}  // namespace trireme::kernels
