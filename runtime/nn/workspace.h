#pragma once
#include "trireme/kernels/kernels.h"
namespace trireme::nn_detail {
Index norm_workspace_bytes(Index rows, Index channels);
Index attention_forward_workspace_bytes(const AttentionShape& shape);
Index attention_backward_workspace_bytes(const AttentionShape& shape);
}  // namespace trireme::nn_detail
