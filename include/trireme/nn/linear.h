// Linear layers: y = x weight^T + bias with weight (out, in); plain, or split over the tensor axis
// by columns (of y) and by rows (of the input), so that column, then row costs one all-reduce each
// way (Shoeybi et al. 2019, arXiv:1909.08053). column_linear enters the tensor-parallel region and
// row_linear leaves it automatically. GELU between the two can be fused into their products.
#pragma once

#include <string>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/nn/parallel.h"

namespace trireme {

enum class Bias { none, zeros };

struct LinearOptions {
  Bias bias = Bias::zeros;
  Init init = normal(0.02f);
  /// How row_linear leaves the region. column_linear derives how to enter it from its input.
  SequenceParallel sequence = SequenceParallel::off;
};

/// One logical tensor of a packed layer: parameters "name.weight" (out, in) and "name.bias" (out).
struct LinearPart {
  std::string name;
  Index out;  // global
};

/// y = x weight^T (+ bias). x: (rows, in), its rows may be strided; weight: (out, in); bias: (out)
/// or an empty Value. A replicated weight is applied to each row independently; a sharded weight on
/// a partial_gradient x gives this rank's columns.
Value linear(Value x, Value weight, Value bias = {});
/// With parameters "name.weight" (out, in) and "name.bias" (out), the same on every tensor rank.
Value linear(Value x, const std::string& name, Index out, const LinearOptions& options = {});

/// Splits `out` over the tensor axis. x: (rows, in), replicated or with sharded rows -> (rows, out
/// / ranks). Throws: Error when `out` does not divide by the tensor size.
Value column_linear(Value x, const std::string& name, Index out, const LinearOptions& options = {});
/// Several layers under one GEMM: the parts lie side by side in memory and in the columns of the
/// result, (rows, sum of out / ranks); each part is split over the tensor axis on its own.
Value column_linear(Value x, const std::vector<LinearPart>& parts,
                    const LinearOptions& options = {});
/// Splits the input's channels over the tensor axis, and adds the bias after leaving it.
/// x: (rows, in / ranks), from column_linear -> (rows, out), or its part of the rows under sequence
/// parallelism.
Value row_linear(Value x, const std::string& name, Index out, const LinearOptions& options = {});

/// row_linear(gelu_tanh(h), name, out, options). In backward the product that computes the gradient
/// of the layer's input also computes that of h.
Value gelu_row_linear(Value h, const std::string& name, Index out,
                      const LinearOptions& options = {});
/// gelu_row_linear(column_linear(x, up.name, up.out, up_options), down.name, down.out,
/// down_options), an MLP with GELU: the product that computes h also computes gelu_tanh(h). Both
/// are kept for backward, as in the unfused form.
Value gelu_mlp(Value x, const LinearPart& up, const LinearOptions& up_options,
               const LinearPart& down, const LinearOptions& down_options);

}  // namespace trireme
