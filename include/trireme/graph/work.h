// Counts of work, in floating-point operations and bytes of device memory: what ops report
// (Op::bytes, Op::flops and their backward counterparts), and what a plan sums (Plan::work).
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// What one call of backward computes.
struct BackwardWork {
  enum class Gradient { none, assigned, added };
  std::vector<Gradient> gradients;  // of the inputs
  bool makes_outputs = false;       // as Exec::makes_outputs

  Gradient of(int input) const { return gradients[static_cast<std::size_t>(input)]; }
  bool wants(int input) const { return of(input) != Gradient::none; }
  /// How often the memory of this gradient is read or written.
  int passes(int input) const { return static_cast<int>(of(input)); }
};

/// What one step of a plan does for one micro-batch.
struct StepWork {
  /// `step`: work of no op, such as loading an input or adding up gradients.
  enum class Phase { forward, recompute, backward, step };
  std::string op;    // "linear"; without an op "load", "seed", "zero", "copy" or "add"
  std::string name;  // of the node, or of the input; may be empty
  Phase phase = Phase::step;
  double bytes = 0, flops = 0;
  bool idle = false;  // a copy of memory onto itself: nothing runs
};
const char* name(StepWork::Phase phase);

}  // namespace trireme
