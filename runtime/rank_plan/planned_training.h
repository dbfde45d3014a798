// PlannedTraining: everything that one rank of a layout will do and need, derived only from the
// model, the TrainingSpec and the traits of the rank's device: no communication, no memory, no
// device. Any process can plan any rank. Complete when constructed, and never changed.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/core/tensor.h"

#include "runtime/pipeline/program.h"
#include "runtime/rank_plan/planned_model.h"

namespace trireme {

/// PlannedPass: a planned model with its pipeline program: a training step, an evaluation, or one
/// token of generation. Passes never run at the same time, so they share memory.
class PlannedPass {
 public:
  /// Throws: Error when the micro-batches in flight need more than any memory.
  PlannedPass(PlannedModel model, std::shared_ptr<const StageProgram> program);

  /// Returns this pass with the same graph and cut, of which nothing runs: its program is empty.
  PlannedPass without_chunks() const;

  const PlannedModel& model() const { return model_; }
  const StageProgram& program() const { return *program_; }
  /// Bytes from one slot of a chunk to the next.
  Index slot_stride(std::size_t chunk) const;
  /// All slots of all chunks, and the scratch that they share.
  Index slot_bytes() const { return slot_bytes(*program_); }
  Index scratch_bytes() const { return model_.scratch_bytes(); }
  Index bytes() const { return slot_bytes() + scratch_bytes(); }
  /// Returns the bytes of a rank that is planned alike and runs another program.
  Index bytes_with(const StageProgram& program) const {
    return slot_bytes(program) + scratch_bytes();
  }
  /// Returns the bytes of the constants of its graph, which are its own; aligned to 4096.
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

/// PlannedInputs: the data of one global batch that a rank keeps on its host. Sample i of a step is
/// row i of the global batch; data ranks take consecutive rows, as many as their share says,
/// micro-batch after micro-batch, whatever the layout.
struct PlannedInputs {
  /// Plans the inputs that any chunk of `model` loads. A source fills the inputs of its graph.
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
    /// Returns the bytes of one micro-batch, aligned.
    Index bytes() const;
  };
  std::vector<Row> rows;      // by position in the inputs of the source's graph
  std::vector<Input> inputs;  // by position in Graph::inputs()
  Index micro_batch_size, micro_batches;
  Index first_row;  // index in the global batch

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

/// PlannedOutputs: what Trainer::outputs runs and keeps: Model::result of a global batch.
struct PlannedOutputs {
  /// Throws: Error that says what Model::result may not be.
  PlannedOutputs(const Forward& result, const PlanTarget& target, const PlannedPass& train);

  PlannedPass pass;
  PlannedInputs inputs;
  Tensor result;  // result of one micro-batch, packed, without memory
  Tensor sample;  // one sample as it is handed out: f32, without memory
  Index samples;  // number of samples of a global batch that this data rank runs
  bool makes;     // this rank has the results of its data rank
  Index kept;     // rows in f32 on this rank: those that it makes, or hands out for any data rank

  /// Returns the bytes of the results on this rank as they are computed; row_bytes(), those of rows
  /// in f32.
  Index result_bytes() const;
  Index row_bytes() const { return kept * sample.bytes(); }
  /// Returns the bytes on the host, without the inputs.
  Index bytes() const { return result_bytes() + row_bytes(); }
};

// MemoryNeed: what a rank will allocate, known in advance.

/// Bytes of one rank.
struct MemoryNeed {
  Index parameters = 0;  // as ops read them, and f32 masters
  Index masters = 0;     // the part of `parameters` that are masters beside a compute copy
  Index gradients = 0, optimizer = 0, activations = 0, constants = 0;
  Index checks = 0;                   // for silent corruption
  Index inputs = 0;                   // data of a global batch
  Index outputs = 0;                  // Model::result of a global batch
  Index checkpoint = 0, loading = 0;  // for saves, and while a checkpoint is read
  Index snapshots = 0;                // in shared memory of the node, which outlives the job
  Index products = 0;                 // what the stream that computes takes for itself

  /// All of it starts at multiples of this.
  static Index aligned(Index bytes);
  /// Returns the bytes on the device, as one: parameters, gradients, state of the optimizer,
  /// activations, constants, checks.
  Index arena() const;
  Index device() const { return arena() + products; }
  /// What libraries (oneDNN, MPI) take while training, beyond what they have when memory is looked
  /// at: an estimate. On one rank of a CPU 20 to 22 MiB were measured, whatever the model.
  static constexpr Index libraries = Index{32} << 20;
  /// Additional memory on the host.
  Index host() const { return inputs + outputs + checkpoint + loading + snapshots + libraries; }
  Index total() const { return device() + host(); }
  std::string describe() const;
};

struct PlannedTraining {
  /// all; or training alone, where evaluation runs the same graph, which needs no more memory: the
  /// pass of `evaluate` then has no chunks.
  enum class Passes { all, train };
  /// `device`: that the rank will have; any GPU, but a CPU only where this machine runs the same
  /// vector code. `cache`: of this model and device, so that other ranks take less time; null:
  /// none. Throws: Error when the model cannot be traced or cut, a data input's dim 0 is not the
  /// micro-batch, or no op takes it.
  PlannedTraining(const Model& model, const TrainingSpec& spec, int rank,
                  const DeviceTraits& device, PlanCache* cache = nullptr,
                  Passes planned = Passes::all);

  TrainingSpec spec;
  int rank;
  DeviceTraits device;
  PlannedPass train, evaluate;            // `train` without TrainingSpec::trains: for its cut alone
  std::optional<PlannedPass> generate;    // where there is Model::logits
  std::optional<PlannedOutputs> outputs;  // where there is Model::result
  FlatLayout flat;
  PlannedInputs train_inputs, evaluate_inputs;
  Index product_bytes;  // for the device's stream that computes

  int coordinate(Role role) const { return spec.mesh.coordinate(rank, role); }
  /// All that run: the first is training where there is any (TrainingSpec::trains), otherwise
  /// evaluation.
  std::vector<const PlannedPass*> passes() const;
  /// Returns the memory without what checkpoints need.
  MemoryNeed memory_need() const;
  /// The tables of --dump-plan.
  std::string describe() const;
};

}  // namespace trireme
