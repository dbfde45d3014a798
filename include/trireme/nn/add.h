// Sums: the residual addition, whose gradient passes through and costs nothing, and the bias that
// comes after leaving the tensor axis.
#pragma once

#include "trireme/graph/graph.h"

namespace trireme {

/// a + b, elementwise, of one shape.
Value operator+(Value a, Value b);

/// x (rows, channels) + bias (channels) on every row.
Value bias_add(Value x, Value bias);

}  // namespace trireme
