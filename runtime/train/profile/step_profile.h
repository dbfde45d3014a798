// StepProfile: a timer after every piece of work of one step. All timers are created before the
// first step; other steps record none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/optim/flat_parameters.h"
#include "runtime/pipeline/program.h"
#include "runtime/rank_plan/planned_model.h"
#include "runtime/train/input_batch.h"

namespace trireme::train {

/// Work of a step that is not in a plan.
enum class StepPart {
  data,               // the global batch is read, and what all ranks agree on with it
  zero_gradients,     // gradients of the whole rank
  exchange,           // transfers between stages: their start, and the wait for them
  result,             // copies of losses to the host
  gradient_sums,      // the rest of the wait for the sums over ranks
  gradient_norm,      // the norm, with its sum over all ranks
  update,             // new parameters, with their compute copy
  gather_parameters,  // the rest of the wait for parameters, after a sharded update
  between_ops         // communication and saves that move on beside the ops
};
inline constexpr int step_parts = static_cast<int>(StepPart::between_ops) + 1;

struct StepRow {
  std::string op;
  StepWork::Phase phase = StepWork::Phase::step;
  std::vector<std::string> names;  // names of nodes, in their order
  Index calls = 0;
  double bytes = 0, flops = 0;  // sums over all calls
};

/// StepTable: what one step of this rank does, summed by op and phase: calls, bytes and operations.
/// It follows from the plan, before memory exists.
class StepTable {
 public:
  /// `flat` need not be bound.
  StepTable(const PlannedModel& model, const StageProgram& program, const FlatLayout& flat,
            const Context& context);

  const std::vector<StepRow>& rows() const { return rows_; }
  /// Returns the place in rows() of a step of a chunk's plan, or of a part; -1: nothing runs.
  int row_of(int chunk, int step) const {
    return row_of_step_[static_cast<std::size_t>(chunk)][static_cast<std::size_t>(step)];
  }
  int row_of(StepPart part) const { return row_of_part_[static_cast<std::size_t>(part)]; }
  /// Returns how many points of a step at most lie behind work of any row.
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

class StepProfile {
 public:
  StepProfile(StepTable table, Stream& stream);

  const StepTable& table() const { return table_; }
  /// Starts timing marked work, until end().
  void begin();
  /// Says that the stream has work of this kind, from the last mark or begin() to here. Has no
  /// effect outside of begin() and end(), and where the table has no such row.
  void mark(StepPart part) { mark(table_.row_of(part)); }
  void mark(int chunk, int step) { mark(table_.row_of(chunk, step)); }
  /// Waits for the last mark.
  void end();

  struct Times {
    double seconds = 0;
    Index marks = 0, operations = 0;  // operations: calls that put something on the stream
  };
  /// Returns the times of the rows of the table, after end().
  std::vector<Times> times() const;

 private:
  struct Mark {
    int row;
    Index operations;
  };
  void mark(int row);

  StepTable table_;
  Stream& stream_;
  std::unique_ptr<Event> start_;
  std::vector<std::unique_ptr<Event>> timers_;
  std::vector<Mark> marks_;  // as many as are recorded
  Index counted_ = 0;        // operations of the stream up to the last mark
  bool recording_ = false;
};

/// The batches of the step that is profiled.
class ProfiledBatch final : public MicroBatchSource {
 public:
  ProfiledBatch(InputBatch& inputs, StepProfile& profile) : inputs_(inputs), profile_(profile) {}
  MicroBatch micro_batch(int chunk, Index number) override {
    return inputs_.micro_batch(chunk, number);
  }
  void on_queued(Queued what) override {
    profile_.mark(what == Queued::exchange ? StepPart::exchange : StepPart::result);
  }

 private:
  InputBatch& inputs_;
  StepProfile& profile_;
};

}  // namespace trireme::train
