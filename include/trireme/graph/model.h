// Model: what a user writes, the forward pass as ordinary code on symbolic Values.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "trireme/core/key_values.h"
#include "trireme/graph/graph.h"

namespace trireme {

/// Runs on each rank, once for each kind of pass, before anything is allocated.
using Forward = std::function<Value(Graph&)>;

struct Model {
  Forward loss;        // a sum over targets (nn/loss.h), one micro-batch
  Forward evaluation;  // the same without dropout; empty: `loss`
  /// For generation: the logits (sequence, columns of this tensor rank) of one sequence of i32
  /// tokens; empty: none.
  Forward logits;
  /// What a trained model is asked for (Trainer::outputs): a floating-point value whose dim 0 is
  /// the samples of one micro-batch, replicated on the tensor axis. Its inputs are some of those of
  /// `loss`, by name, and its parameters the first ones of `loss`, declared in the same order;
  /// empty: none.
  Forward result;
  /// Properties of the function that shapes do not show. A checkpoint is loaded only if they are
  /// equal.
  KeyValues identity;

  template <class F>
  requires std::is_invocable_r_v<Value, F, Graph&> Model(F forward)
      : loss(std::move(forward)) {}  // NOLINT(google-explicit-constructor)
};

}  // namespace trireme
