// What follows from the kinds of a TransformerConfig, each a switch over all of them without a
// default: a new kind does not compile before it is decided. tests/layering finds comparisons with
// a kind anywhere else.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/core/error.h"
#include "trireme/models/transformer_config.h"

namespace trireme {

/// The MLP multiplies an activation by a second product of its input.
inline bool is_gated(MlpKind kind) {
  switch (kind) {
    case MlpKind::gelu_tanh:
    case MlpKind::gelu_erf:
      return false;
    case MlpKind::swiglu:
      return true;
  }
  throw Error("no such kind of MLP");
}

/// Whether the product behind the activation can compute it (gelu_mlp).
inline bool is_part_of_product(MlpKind kind) {
  switch (kind) {
    case MlpKind::gelu_tanh:
      return true;
    case MlpKind::gelu_erf:
    case MlpKind::swiglu:
      return false;
  }
  throw Error("no such kind of MLP");
}

/// A norm adds a vector.
inline bool has_bias(Normalization kind) {
  switch (kind) {
    case Normalization::layer_norm:
      return true;
    case Normalization::rms_norm:
      return false;
  }
  throw Error("no such kind of norm");
}

/// Positions are a table of parameters.
inline bool is_learned(PositionKind kind) {
  switch (kind) {
    case PositionKind::learned:
      return true;
    case PositionKind::rotary:
      return false;
  }
  throw Error("no such kind of positions");
}
/// Positions turn queries and keys.
inline bool is_rotary(PositionKind kind) {
  switch (kind) {
    case PositionKind::learned:
      return false;
    case PositionKind::rotary:
      return true;
  }
  throw Error("no such kind of positions");
}

/// Frequencies are not those of the paper.
inline bool is_scaled(RotaryScalingKind kind) {
  switch (kind) {
    case RotaryScalingKind::none:
      return false;
    case RotaryScalingKind::linear:
    case RotaryScalingKind::llama3:
    case RotaryScalingKind::yarn:
      return true;
  }
  throw Error("no such kind of rotary scaling");
}
/// It reads RotaryScaling::original_positions.
inline bool reads_original_positions(RotaryScalingKind kind) {
  switch (kind) {
    case RotaryScalingKind::none:
    case RotaryScalingKind::linear:
      return false;
    case RotaryScalingKind::llama3:
    case RotaryScalingKind::yarn:
      return true;
  }
  throw Error("no such kind of rotary scaling");
}

}  // namespace trireme
