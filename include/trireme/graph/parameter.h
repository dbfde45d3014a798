// Parameter: logical tensors as the user declares them, and what this rank holds of them.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/box.h"
#include "trireme/graph/placement.h"
#include "trireme/graph/spec.h"

namespace trireme {

/// Which dim of a parameter is split over the tensor axis, if any.
struct Shard {
  int dim = -1;
  /// The dim is padded so that every rank has a multiple of `padded_to`; padding is not part of the
  /// logical tensor. cuBLAS needs multiples of 16 bytes for its fastest bf16 products.
  bool padded = false;
  static constexpr Index padded_to = 8;
};
inline Shard replicated() { return {}; }
inline Shard shard(int dim) { return {dim, false}; }
inline Shard shard_padded(int dim) { return {dim, true}; }

/// Initial values; element i of the logical tensor depends on (seed, name, i) only.
struct Init {
  enum class Kind { zeros, ones, normal, uniform };
  Kind kind = Kind::zeros;
  float scale = 0;  // standard deviation, or half width
};
inline Init zeros() { return {Init::Kind::zeros, 0}; }
inline Init ones() { return {Init::Kind::ones, 1}; }
inline Init normal(float deviation) { return {Init::Kind::normal, deviation}; }
inline Init uniform(float half_width) { return {Init::Kind::uniform, half_width}; }

/// A logical tensor as the user declares it.
struct ParameterSpec {
  std::string name;
  Shape global;
  Shard shard;
  Init init;
};

/// How parameters are trained whose names begin with the words of `pattern`: "embedding",
/// "block.0-15" (a range of numbers), "block.3.mlp".
struct ParameterGroup {
  std::string pattern = {};
  bool trained = true;  // otherwise they stay as they are, and exist in the compute type only
  int decay_dims = 2;   // weight decay applies from so many dims: not to norms and biases
};

/// One logical tensor inside a parameter, as this rank holds it.
struct ParameterPart {
  std::string name;  // full: scopes and name, "block.3.attention.query.weight"
  Shape global;
  Shard shard;
  Init init;
  Box box;       // what this rank holds of `global`; may be empty (padding only)
  Shape local;   // with padding; box.size fits in its corner
  Index offset;  // elements into the parameter
};

/// A piece of memory that ops read as one value: one logical tensor, or several side by side along
/// dim 0 (queries, keys and values under one GEMM).
struct Parameter {
  int id;               // index in Graph::parameters
  int value;            // id of its Value
  Spec spec;            // local shape, in the compute type
  Placement placement;  // replicated or sharded
  std::vector<ParameterPart> parts;
  ParameterGroup group = {};  // Graph::assign
  /// How the ops that use it compute its gradient: complete on every tensor rank, or one term of it
  /// per rank.
  enum class Gradient { unused, complete, partial };
  Gradient gradient = Gradient::unused;
  std::string first_use;  // the node that decided it
  const std::string& name() const { return parts.front().name; }
  bool frozen() const { return !group.trained; }
  bool decays() const { return parts.front().global.dims() >= group.decay_dims; }
};

}  // namespace trireme
