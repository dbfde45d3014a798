// PlannedInputs: the data of one global batch that a rank keeps on its host. Sample i of a step is
// row i of the global batch; data ranks take consecutive rows, as many as their share says,
// micro-batch after micro-batch, whatever the layout.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/tensor.h"

#include "runtime/plan/planned_model.h"

namespace trireme {

struct PlannedInputs {
  /// For the inputs that any chunk of `model` loads. A source fills the inputs of its graph.
  PlannedInputs(const PlannedModel& model, const PlanTarget& target)
      : PlannedInputs(model, target, *model.graph) {}
  /// A source fills the inputs of the graph `source`, of which `model` takes some, by name. Throws:
  /// Error when it takes another one.
  PlannedInputs(const PlannedModel& model, const PlanTarget& target, const Graph& source);

  /// What a source fills.
  struct Row {
    std::string name;
    Tensor sample;  // one sample as a source sees it, without memory
  };
  struct Input {
    std::size_t row;  // in `rows`
    bool used;        // on this rank
    Tensor batch;     // one micro-batch, without memory
    /// Of one micro-batch, aligned.
    Index bytes() const;
  };
  std::vector<Row> rows;      // by position in the inputs of the source's graph
  std::vector<Input> inputs;  // by position in Graph::inputs()
  Index micro_batch_size, micro_batches;
  Index first_row;  // of the global batch

  Index bytes() const;
  /// The source gives f32, and the model takes bf16.
  bool rounded(const Input& input) const {
    return rows[input.row].sample.dtype != input.batch.dtype;
  }
};

/// The dims of one sample.
Shape without_first(const Shape& shape);

/// Throws: Error when dim 0 of an input, which is the sample, is not the micro-batch, or no op
/// takes an input. For the training graph: others may declare an input only to keep the order of
/// later ones.
void check_inputs(const Graph& graph, Index micro_batch_size);

}  // namespace trireme
