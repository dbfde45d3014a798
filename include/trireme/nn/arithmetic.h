// Arithmetic on values, in f32 and bf16, on CPUs and GPUs, anywhere on the tensor axis. (a + b:
// nn/add.h.) For a formula of one's own: nn/pointwise.h.
#pragma once

#include "trireme/graph/graph.h"

namespace trireme {

/// a * b, elementwise, of one shape.
Value operator*(Value a, Value b);
/// a - b, elementwise, of one shape.
Value operator-(Value a, Value b);
Value operator*(float factor, Value x);
Value operator*(Value x, float factor);
Value operator-(Value x);

Value sigmoid(Value x);
Value tanh(Value x);
/// x where it is positive, else 0. Its slope at 0 is 0.
Value relu(Value x);
Value exp(Value x);

/// The sum of all elements, as an fp64 scalar: a loss. Its order is fixed. x is replicated, or
/// sharded over the tensor axis (without padding): the sum is then that of all ranks.
Value sum(Value x);
/// The sum over the rows (dim 0) of each row's mean, as an fp64 scalar: the loss of a data source
/// that counts one target a row, whatever the size of a micro-batch. x: replicated.
Value mean(Value x);

/// Matrices of the same rows side by side: (rows, a), (rows, b), ... -> (rows, a + b + ...). Of
/// sharded values each rank puts its own columns, or rows, together.
Value concat_columns(const Values& parts);

}  // namespace trireme
