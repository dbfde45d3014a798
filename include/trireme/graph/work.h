// Counts of work, in floating-point operations and bytes of device memory: what ops report
// (Op::bytes, Op::flops, Op::parts and their backward counterparts), and what a plan sums
// (Plan::work).
#pragma once

#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

/// Products of an m x k matrix with a k x n one.
struct ProductWork {
  Index m = 0, n = 0, k = 0, count = 1;
  DType dtype = DType::f32;  // the factors have it
  DType result = dtype;
  bool adds = false;  // to a result that is there, as sums of gradients do

  double flops() const;
  /// Returns the bytes of the two factors and the result, each once; a result to which the product
  /// adds counts twice.
  double bytes() const;
  friend bool operator==(const ProductWork&, const ProductWork&) = default;
};

/// Causal attention, forward or backward. Of the scores the masked half is not computed.
struct AttentionWork {
  Index batch = 0, sequence = 0, query_heads = 0, kv_heads = 0, head_dim = 0;
  DType dtype = DType::f32;
  double flops = 0;
  friend bool operator==(const AttentionWork&, const AttentionWork&) = default;
};

/// A collective among `ranks` ranks of one axis.
struct CollectiveWork {
  enum class Kind { all_reduce, reduce_scatter, all_gather };
  Kind kind = Kind::all_reduce;
  int ranks = 1;
  double bytes = 0;  // size of the whole: what one rank reduces, or has after a gather

  /// What each rank sends along a ring.
  double ring_bytes() const;
  friend bool operator==(const CollectiveWork&, const CollectiveWork&) = default;
};
const char* name(CollectiveWork::Kind kind);

/// What is in a call of an op besides loops over memory.
struct WorkParts {
  std::vector<ProductWork> products;
  std::vector<AttentionWork> attention;
  std::vector<CollectiveWork> collectives;  // over the tensor axis
};

/// What one call of backward computes.
struct BackwardWork {
  enum class Gradient { none, assigned, added };
  std::vector<Gradient> gradients;  // one entry per input
  bool makes_outputs = false;       // as Exec::makes_outputs

  Gradient of(int input) const { return gradients[static_cast<std::size_t>(input)]; }
  bool wants(int input) const { return of(input) != Gradient::none; }
  bool adds(int input) const { return of(input) == Gradient::added; }
  /// Returns how often the memory of this gradient is read or written.
  int passes(int input) const { return static_cast<int>(of(input)); }
};

/// What one step of a plan does for one micro-batch.
struct StepWork {
  /// `step`: work of no op, such as loading an input or adding up gradients.
  enum class Phase { forward, recompute, backward, step };
  /// The call of the executor that runs the step.
  enum class Call { forward, backward, parameter_backward };
  std::string op;    // "linear"; without an op "load", "seed", "zero", "copy" or "add"
  std::string name;  // name of the node or of the input; may be empty
  Phase phase = Phase::step;
  Call call = Call::forward;
  double bytes = 0, flops = 0;
  WorkParts parts;
  std::vector<int> ready;  // positions in Plan::parameters() whose gradient is complete after it
  bool idle = false;       // a copy of memory onto itself: nothing runs

  /// Returns the part of `bytes` that neither products nor attention nor collectives move.
  double loop_bytes() const;
};
const char* name(StepWork::Phase phase);

}  // namespace trireme
