// StageProgram: what one stage executes: its work with memory slots, and the exchanges with its
// neighbours, derived from the work orders of all stages so that they cannot deadlock, even where a
// send waits for its receive.
//
// Construction. Give each work its time, as early as its stage and its input allow. Every transfer
// belongs to one *round*, named by its time: when it was produced or, if the receiver's memory is
// still in use then, when that is free. A stage starts the exchange of round t before its first
// work that ends after t, and waits for it as late as it can: before work that needs what was
// received, or overwrites what was sent. Such work begins at t or later.
//
// Proof. Order rounds by their time and works by their begin, a round before works of the same
// time. Round t needs, on each of its members, the works that end by t and the starts of earlier
// rounds. Work that begins at t needs rounds up to t and the works before it. Each needs only what
// is smaller, so by induction all complete. All members of a round agree on it, and messages
// between two stages appear in the same order on both.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/pipeline/schedule.h"

namespace trireme {

/// One message between virtual stages, seen from this stage: its end is (chunk, micro_batch) here.
struct Hop {
  enum class Kind { values, gradients };
  Kind kind = Kind::values;
  int peer = 0;  // stage of the other end
  int chunk = 0;
  Index micro_batch = 0;
  int slot = 0;  // slot of (chunk, micro_batch) here
  friend bool operator==(const Hop&, const Hop&) = default;
};

/// A transfer between two chunks of one stage: the only one, or one where the route turns.
struct LocalHop {
  Hop from, to;
};

/// Sends and receives that are started, and complete, together.
struct Exchange {
  Index round = 0;
  std::vector<Hop> sends, receives;
  std::vector<LocalHop> copies;
};

struct Action {
  enum class Kind { work, start, wait };
  Kind kind = Kind::work;
  // work
  Work work{};
  int slot = 0;
  bool last = false;  // the last backward of its chunk in this step: gradients become final
  // start, wait
  int exchange = -1;
};

struct StageProgram {
  int stage = 0;
  PipelineShape shape;
  std::vector<Action> actions;
  std::vector<Exchange> exchanges;
  std::vector<int> slots;  // per chunk: micro-batches in flight, received ones included

  /// Some backward of the chunk runs in two halves: its plan needs PlanOptions::Backward::split.
  bool splits_backward(int chunk) const;

  /// The memory slot of a micro-batch: a ring, since each chunk takes micro-batches in order.
  int slot(int chunk, Index micro_batch) const {
    return static_cast<int>(micro_batch % slots[static_cast<std::size_t>(chunk)]);
  }
};

struct ProgramOptions {
  /// Slots beyond those that the order needs, per chunk: values can then be received one
  /// micro-batch earlier, so that the transfer hides behind work. Costs activation memory.
  int extra_slots = 0;
};

/// Per chunk: StageProgram::slots of a stage that runs this order, whatever the others do.
std::vector<int> slots_of(const WorkOrder& order, int chunks);

/// The programs of all stages. Throws: Error when the orders cannot run, naming what each stage
/// waits for.
std::vector<StageProgram> make_programs(const std::vector<WorkOrder>& orders,
                                        const PipelineShape& shape, ProgramOptions options = {});
/// Makes the programs of a schedule of a program's own, once it is checked. Throws: Error of one
/// sentence that names the stage, the work and what would be right.
std::vector<StageProgram> make_programs(const ScheduleFunction& schedule,
                                        const PipelineShape& shape, ProgramOptions options = {});
/// Returns the program of one stage of a training step.
StageProgram make_program(ScheduleKind kind, const PipelineShape& shape, int stage,
                          ProgramOptions options = {});
StageProgram make_program(const ScheduleFunction& schedule, const PipelineShape& shape, int stage,
                          ProgramOptions options = {});
/// The program of one stage of a forward-only pass.
StageProgram make_forward_program(const PipelineShape& shape, int stage,
                                  ProgramOptions options = {});

/// One line an action: "F3 slot 1", "start round 7: send values 3 -> 1, receive gradients 2 <- 1".
std::string describe(const StageProgram& program);

}  // namespace trireme
