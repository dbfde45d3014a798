// Program: the linear list of steps of one stage, and the memory they touch. Rule 1: every
// definition of a value is a piece of memory of its own (a recomputed value has two), alive from
// its first write to its last read.
#pragma once

#include <string>
#include <vector>

#include "runtime/graph/compile/cut.h"
#include "runtime/graph/compile/plan.h"

namespace trireme::graph {

/// The calls that run the steps. Between two calls other slots may run, so what lives across stays
/// in the slot.
enum class Phase { forward, backward, parameter_backward };
constexpr int phases = 3;

/// Where a step finds a tensor.
struct Operand {
  enum class Source { none, memory, parameter, gradient };
  Source source = Source::none;
  int id = -1;      // memory, or parameter of the graph (itself or its gradient)
  Index first = 0;  // elements into it
  Spec spec;
};

struct Step {
  enum class Kind { load, forward, seed, zero, copy, add, backward };
  Kind kind = Kind::forward;
  Phase phase = Phase::forward;
  int node = -1;   // load and seed: none; zero, copy, add: on whose behalf, or none
  int input = -1;  // load: position in Graph::inputs()
  std::vector<Operand> inputs, outputs, grad_outputs, grad_inputs;
  std::vector<char> accumulate;  // per grad_input
  bool makes_outputs = false;    // backward, where forward did not run
  Operand workspace;
  Operand to, from;
  std::vector<int> ready;   // parameters whose gradient is complete after this step
  std::vector<int> deaths;  // buffers that are dead after this step
};

/// One instance in the making.
struct Memory {
  enum class Life {
    steps,
    from_definition,
    program
  };  // from_definition: to the end of the program
  std::string name;
  DType dtype = DType::f32;
  Index bytes = 0;  // with the holes of a strided value
  Life life = Life::steps;
  int begin = -1, end = -1;
  std::vector<int> writes;
  int region = -1;  // lies inside this transfer region, at region_offset, and never shares
  Index region_offset = 0;
  int buffer = -1;
};

/// Rule 6: a permission that would be worth using, if it is legal. `passes`: `step` copies source
/// to target, which is nothing to do when they are the same memory. `over`: `step` may write target
/// over source.
struct Share {
  enum class Kind { passes, over };
  Kind kind;
  int target, source, step;
};

struct Program {
  std::vector<Step> steps;
  std::vector<Memory> memory;
  std::vector<Share> shares;
  int receive_values = -1, send_values = -1, receive_gradients = -1, send_gradients = -1;
  std::vector<Operand> results;  // none where another stage computes it
  std::vector<int> parameters;   // graph ids, in the order in which their gradients become ready
  std::vector<int> ready_first;  // those that are trained and get no gradient on this stage
  std::vector<int> inputs;       // positions in Graph::inputs() that are loaded
};

Program make_program(const Graph& graph, const Values& results, const Derivative& derivative,
                     const StageView& view, const PlanOptions& options);

/// Offset of the memory that follows `bytes` bytes.
constexpr Index align_up(Index bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace trireme::graph
