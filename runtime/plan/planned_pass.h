// PlannedPass: a planned model with its pipeline program: a training step, an evaluation, or one
// token of generation. Passes never run at the same time, so they share memory.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>

#include "runtime/pipeline/program.h"
#include "runtime/plan/planned_model.h"

namespace trireme {

class PlannedPass {
 public:
  /// Throws: Error when the micro-batches in flight need more than any memory.
  PlannedPass(PlannedModel model, std::shared_ptr<const StageProgram> program);

  /// The same graph and cut, of which nothing runs: the program says nothing.
  PlannedPass without_chunks() const;

  const PlannedModel& model() const { return model_; }
  const StageProgram& program() const { return *program_; }
  /// Bytes from one slot of a chunk to the next.
  Index slot_stride(std::size_t chunk) const;
  /// All slots of all chunks, and the scratch that they share.
  Index slot_bytes() const { return slot_bytes(*program_); }
  Index scratch_bytes() const { return model_.scratch_bytes(); }
  Index bytes() const { return slot_bytes() + scratch_bytes(); }
  /// Of a rank that is planned alike and runs another program.
  Index bytes_with(const StageProgram& program) const {
    return slot_bytes(program) + scratch_bytes();
  }
  /// Of the constants of its graph, which are its own; aligned to 4096.
  Index constant_bytes() const;

 private:
  Index slot_bytes(const StageProgram& program) const;

  PlannedModel model_;
  std::shared_ptr<const StageProgram> program_;
};

/// The programs of a rank: of a training step, and of a forward-only pass.
std::shared_ptr<const StageProgram> train_program(const PlanTarget& target);
std::shared_ptr<const StageProgram> forward_program(const PlanTarget& target,
                                                    const PipelineShape& shape);

}  // namespace trireme
