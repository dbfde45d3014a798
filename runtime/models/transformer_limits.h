// The largest sizes of a transformer: two of them multiplied fit an Index, and a graph of all
// layers is made in half a minute.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/core/dtype.h"

namespace trireme {

struct TransformerLimits {
  static constexpr Index layers = 10'000;
  static constexpr Index heads = Index{1} << 20;
  static constexpr Index channels = Index{1} << 20;
  static constexpr Index attention_channels = Index{1} << 24;  // sum over all heads
  static constexpr Index mlp_channels = Index{1} << 24;
  static constexpr Index vocabulary = Index{1} << 31;
  static constexpr Index sequence = Index{1} << 30;
  static constexpr Index positions = Index{1} << 31;
  static constexpr Index micro_batch = Index{1} << 20;  // samples
  static constexpr Index rows = Index{1} << 31;         // tokens of a micro-batch
  static constexpr Index tensor_size = Index{1} << 20;
  // What is far beyond any machine, while sums of its bytes still fit.
  static constexpr Index parameters = Index{1} << 48;
  static constexpr double activations = 1e14;  // numbers of a micro-batch
};

}  // namespace trireme
