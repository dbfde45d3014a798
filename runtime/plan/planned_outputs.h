// PlannedOutputs: what Trainer::outputs runs and keeps: Model::result of a global batch.
//
// Not installed; modules above may include it.
#pragma once

#include "runtime/plan/planned_inputs.h"
#include "runtime/plan/planned_pass.h"

namespace trireme {

struct PlannedOutputs {
  /// Throws: Error that says what Model::result may not be.
  PlannedOutputs(const Forward& result, const PlanTarget& target, const PlannedPass& train);

  PlannedPass pass;
  PlannedInputs inputs;
  Tensor result;  // of one micro-batch, packed, without memory
  Tensor sample;  // of one sample as it is handed out: f32, without memory
  Index samples;  // of a global batch that this data rank runs
  bool makes;     // this rank has the results of its data rank
  Index kept;     // rows in f32 on this rank: those that it makes, or hands out for any data rank

  /// Of the results on this rank as they are computed, and of rows in f32.
  Index result_bytes() const;
  Index row_bytes() const { return kept * sample.bytes(); }
  /// On the host, without the inputs.
  Index bytes() const { return result_bytes() + row_bytes(); }
};

}  // namespace trireme
