// LayoutPlanner: plans all distinct ranks of layouts of one model, with what layouts share made
// once: traces, plans of stages, pipeline programs. No ranks, no device, no memory.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/graph/model.h"
#include "trireme/models/transformer_config.h"

#include "runtime/rank_plan/plan_cache.h"
#include "runtime/rank_plan/rank_memory.h"

namespace trireme::cost {

/// One way to train a model. The last three are of the transformer; another model ignores them.
struct Candidate {
  TrainingSpec spec;
  /// The one whose step is timed; nothing: that which runs most micro-batches, and of these that
  /// which updates most.
  std::optional<int> data_rank = {};
  RecomputeGranularity recompute = RecomputeGranularity::none;
  SequenceParallel sequence_parallel = SequenceParallel::off;
  Index lm_head_chunks = 1;
};

/// A model for each candidate: it may read everything but the mesh, the batch and the schedule.
/// Candidates that are equal in micro_batch_size and the last three members get equal models.
using ModelOfCandidate = std::function<Model(const Candidate&)>;
/// The model of train_gpt.
ModelOfCandidate transformer_models(const TransformerConfig& config);

/// A rank that differs from others in what it needs: one of each (stage, first and last tensor
/// rank, first and last data rank).
struct PlannedRank {
  int rank = 0, stage = 0;
  MemoryNeed need;
  int slots = 0;  // for training, all chunks together
  /// Bytes of a checkpoint that it writes; nothing where one rank of each stage is planned.
  std::optional<Index> saved = {};
};

struct PlannedLayout {
  Candidate candidate;
  std::vector<PlannedRank> ranks;
  int data_rank = 0;  // whose step is timed
  /// One plan per stage, that of tensor rank 0 and that data rank. Stages that are alike
  /// (stage_kinds()) share the plan of the first of them, whose rank, names and slots are not
  /// theirs.
  std::vector<std::shared_ptr<const PlannedTraining>> stages;
  std::shared_ptr<const std::vector<StageProgram>> programs;  // one per stage, in order

  /// Returns the shape of the pipeline of that data rank.
  PipelineShape shape() const { return candidate.spec.pipeline(data_rank); }
  /// Returns the rank that needs most of its device.
  const PlannedRank& tightest() const;
  int communicators() const;  // that a rank has: for Profile::communicator_bytes
};

class LayoutPlanner {
 public:
  /// `device`: that every rank will have. `checkpoint`: null: nothing is saved or loaded.
  /// `programs`: shared with others.
  LayoutPlanner(ModelOfCandidate models, const DeviceTraits& device,
                CheckpointMemory checkpoint = {},
                std::shared_ptr<ProgramCache> programs = std::make_shared<ProgramCache>());
  ~LayoutPlanner();
  /// `one`: of each stage, which says how long a step takes: of tensor rank 0, and of the data rank
  /// that is timed. Others may need a little more, or less, by padding, or as they update more.
  enum class Ranks { one, all };
  /// Throws: Error when the layout is not possible for the model, in one sentence.
  PlannedLayout plan(const Candidate& candidate, Ranks ranks = Ranks::all);
  /// FLOPs of the products and the attention of one sample, over all ranks, without what is
  /// recomputed. Planned in each call. `compute`: a GPU may have no kernel for another type.
  double flops_per_sample(DType compute);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::cost
