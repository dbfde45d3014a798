// LayerNorm (Ba, Kiros, Hinton 2016, arXiv:1607.06450) and RMSNorm (Zhang, Sennrich 2019,
// arXiv:1910.07467) over the last dim, alone or fused with the residual addition in front of them.
// They normalise each row independently, so rows may be sharded (sequence parallelism): the
// weights' gradients are then partial, summed over the tensor axis by the runtime.
#pragma once

#include <string>

#include "trireme/graph/graph.h"

namespace trireme {

inline constexpr float default_norm_epsilon = 1e-5f;

/// x: (rows, channels); weight, bias: (channels).
Value layer_norm(Value x, Value weight, Value bias, float epsilon = default_norm_epsilon);
Value rms_norm(Value x, Value weight, float epsilon = default_norm_epsilon);
/// These forms use the parameters "name.weight" (ones) and, for LayerNorm, "name.bias" (zeros) of
/// the current scope.
Value layer_norm(Value x, const std::string& name, float epsilon = default_norm_epsilon);
Value rms_norm(Value x, const std::string& name, float epsilon = default_norm_epsilon);

/// What the fused forms return: the residual stream after the addition, and its norm.
struct SumAndNorm {
  Value sum, normed;
};
/// sum = x + delta, normed = norm(sum) in one pass over memory; in backward both x and delta
/// receive the gradient of the sum unchanged, without a copy.
SumAndNorm add_layer_norm(Value x, Value delta, Value weight, Value bias,
                          float epsilon = default_norm_epsilon);
SumAndNorm add_rms_norm(Value x, Value delta, Value weight, float epsilon = default_norm_epsilon);
/// These forms use parameters of the current scope.
SumAndNorm add_layer_norm(Value x, Value delta, const std::string& name,
                          float epsilon = default_norm_epsilon);
SumAndNorm add_rms_norm(Value x, Value delta, const std::string& name,
                        float epsilon = default_norm_epsilon);

}  // namespace trireme
