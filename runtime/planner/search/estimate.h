// Estimates of layouts that need no plan of them: a step takes at least so long, a rank needs at
// least so much. They come from plans of the model with one and with two blocks, as all blocks are
// alike.
//
// Not installed; modules above may include it.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "runtime/planner/search/training_task.h"
#include "runtime/planner/step_time.h"

namespace trireme::planner {

/// Of the ends of the model (embedding and head) and of each block, for one micro-batch of a rank
/// that holds all of them.
struct EndsAndBlock {
  double ends = 0, block = 0;

  double of(double blocks) const { return ends + blocks * block; }
};

struct ModelCosts {
  EndsAndBlock seconds;
  EndsAndBlock slot;  // bytes of a micro-batch in flight
};

/// Bytes of parameters, gradients and optimizer: what each data rank keeps, and what ZeRO-1 divides
/// among them.
struct StateCosts {
  EndsAndBlock kept, shared;
  EndsAndBlock large, elements;  // parameters that fill a bucket alone: how many, their elements
};

class Estimator {
 public:
  Estimator(const TrainingTask& task, const Profile& profile, const Network& network);
  ~Estimator();

  /// Rarely more than step_time() of its plan, and then by little; without data traffic, optimizer,
  /// exchange between stages.
  double seconds(const Layout& layout);
  /// What the data axis adds to that at least: each large parameter is in a bucket of its own,
  /// which is gathered after the update, and summed in no more time beside computation than the
  /// last micro-batch takes (known for 1f1b only).
  double data_seconds(const Layout& layout, const Network& network);
  /// What the tightest rank needs at least: of parameters, gradients and optimizer; of these and
  /// activations.
  Index state_bytes(const Layout& layout);
  Index bytes(const Layout& layout);

 private:
  using Key = std::tuple<int, Index, RecomputeGranularity, bool, Index>;
  ModelCosts measure(const Layout& layout);
  const ModelCosts& costs(const Layout& layout);
  /// Of a micro-batch, on each stage.
  std::vector<double> stage_seconds(const Layout& layout, const PipelineShape& shape);
  const StateCosts& state(int tensor);
  /// `ends`: the share of the ends of the model.
  double state_of(const Layout& layout, double blocks, double ends);
  /// Of the device, whatever the model.
  Index fixed_bytes(const Layout& layout) const;
  /// Of each chunk of the first stage.
  const std::vector<int>& slots(const Layout& layout, PipelineShape shape);
  /// How many blocks each virtual stage has, by the runtime's own cut.
  const std::vector<int>& blocks(const Layout& layout);

  const TrainingTask& task_;
  const Profile profile_;
  const Network network_;
  std::unique_ptr<LayoutPlanner> one_block_, two_blocks_;
  std::map<Key, ModelCosts> costs_;
  std::map<int, StateCosts> state_;  // by tensor size
  std::map<std::tuple<ScheduleKind, int, int, Index>, std::vector<int>> slots_;
  std::unique_ptr<Graph> graph_;  // of the whole model, for its cuts
  Value loss_;
  std::map<int, std::vector<int>> blocks_;  // by number of virtual stages
};

}  // namespace trireme::planner
