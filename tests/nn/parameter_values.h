// What parameters of test graphs begin with, and where their elements are on a rank.
#pragma once

#include <vector>

#include "trireme/core/bf16.h"
#include "trireme/core/random.h"
#include "trireme/graph/graph.h"

namespace trireme::run_graph_detail {

/// Calls f(global offset, local offset) for every element that a rank holds of one part.
template <class F>
void for_each_element(const ParameterPart& part, F&& f) {
  const Shape global = part.global.packed_strides(), local = part.local.packed_strides();
  for (Index i = 0; i < part.box.count(); ++i) {
    Index rest = i, from = 0, to = 0;
    for (int d = part.box.size.dims() - 1; d >= 0; --d) {
      const Index at = rest % part.box.size[d];
      rest /= part.box.size[d];
      from += (part.box.begin[d] + at) * global[d];
      to += at * local[d];
    }
    f(from, part.offset + to);
  }
}

inline float initial_value(const ParameterPart& part, Index i) {
  const Random random = random_for(7, part.name);
  switch (part.init.kind) {
    // Neither is left at its neutral value, so that a test sees what they do.
    case Init::Kind::zeros:
      return 0.1f * random.normal(i);
    case Init::Kind::ones:
      return 1 + 0.1f * random.normal(i);
    case Init::Kind::normal:
      return part.init.scale * random.normal(i);
    case Init::Kind::uniform:
      return part.init.scale * (2 * random.uniform(i) - 1);
  }
  return 0;
}

/// The floats of a tensor in f32 or bf16.
inline std::vector<float> floats_of(const Tensor& x) {
  if (x.dtype == DType::f32) return {x.as<float>(), x.as<float>() + x.count()};
  std::vector<float> values;
  for (Index i = 0; i < x.count(); ++i) values.push_back(to_float(x.as<Bf16>()[i]));
  return values;
}

}  // namespace trireme::run_graph_detail
