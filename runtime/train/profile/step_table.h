// StepTable: what one step of this rank does, summed by op and phase: calls, bytes and operations.
// It follows from the plan, before memory exists.
#pragma once

#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/optim/flat_parameters.h"
#include "runtime/pipeline/program.h"
#include "runtime/plan/planned_model.h"

namespace trireme::train {

/// Work of a step that is not in a plan.
enum class StepPart {
  data,               // the global batch is read, and what all ranks agree on with it
  zero_gradients,     // of the whole rank
  exchange,           // transfers between stages: their start, and the wait for them
  result,             // copies of losses to the host
  gradient_sums,      // what is left to wait for of the sums over ranks
  gradient_norm,      // with its sum over all ranks
  update,             // of the parameters, with their compute copy
  gather_parameters,  // what is left to wait for of it, after a sharded update
  between_ops         // communication and saves that move on beside the ops
};
inline constexpr int step_parts = static_cast<int>(StepPart::between_ops) + 1;

struct StepRow {
  std::string op;
  StepWork::Phase phase = StepWork::Phase::step;
  std::vector<std::string> names;  // of nodes, in their order
  Index calls = 0;
  double bytes = 0, flops = 0;  // of all calls
};

class StepTable {
 public:
  /// `flat` need not be bound.
  StepTable(const PlannedModel& model, const StageProgram& program, const FlatLayout& flat,
            const Context& context);

  const std::vector<StepRow>& rows() const { return rows_; }
  /// Place in rows() of a step of a chunk's plan, or of a part; -1: nothing runs.
  int row_of(int chunk, int step) const {
    return row_of_step_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(step)];
  }
  int row_of(StepPart part) const { return row_of_part_[static_cast<std::size_t>(part)]; }
  /// At most so many points of a step lie behind work of any row.
  Index most_marks() const { return most_marks_; }

 private:
  int find_or_add(const std::string& op, StepWork::Phase phase);
  void add_plan(const Plan& plan, Index micro_batches);
  void add(StepPart part, Index calls, double bytes, double flops = 0);
  void add_exchanges(const PlannedModel& model, const StageProgram& program);
  void add_update(const FlatLayout& flat, const Context& context);

  std::vector<StepRow> rows_;
  std::vector<std::vector<int>> row_of_step_;
  std::vector<int> row_of_part_ = std::vector<int>(step_parts, -1);
  Index most_marks_ = 0;
};

}  // namespace trireme::train
