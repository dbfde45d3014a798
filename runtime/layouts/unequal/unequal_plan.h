// UnequalPlan: how a model is trained on GPUs of several types: pipelines as data replicas, each
// stage on GPUs of one type. A tensor group never mixes types.
//
// Not installed; modules above may include it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/graph/graph.h"

#include "runtime/layouts/search/training_task.h"
#include "runtime/layouts/unequal/share.h"

namespace trireme::layouts {

/// How GPUs of different types work together.
enum class Family {
  replicas,  // each pipeline has one type, and all are cut alike; they run unequal micro-batches
  pipeline,  // each pipeline has all types, with unequal stages
  mixed,     // pipelines of different types or cuts, as replicas
};
const char* name(Family family);

/// Pipelines that are alike.
struct PipelineKind {
  std::vector<int> types;   // one per stage: index of the group in the cluster
  std::vector<int> blocks;  // one per stage
  int count = 1;            // number of such pipelines
  Share share;              // micro-batches

  int stages() const { return static_cast<int>(types.size()); }
};

struct UnequalPlan {
  Family family = Family::replicas;
  /// What all pipelines have in common; `pipeline`: stages of the first kind; `data`: of all.
  Layout layout;
  std::vector<PipelineKind> kinds;
  double estimate = 0;  // seconds of a step

  /// Bit i: the group i of the cluster is used.
  unsigned groups() const;
  /// GPUs of a group that are used.
  int gpus(int group) const;
  /// The first data rank of a kind: those of a kind follow each other.
  int first_of(std::size_t kind) const;
  /// Micro-batches of each data rank, in order, without a common factor; empty where all are equal.
  DataShares shares() const;
};

/// Why the runtime cannot launch it; empty: it can.
std::string why_not_launched(const UnequalPlan& plan);

/// ModelCut: how many blocks each stage of a pipeline gets, and the speeds that make the runtime
/// cut the model so.
class ModelCut {
 public:
  ModelCut(const TrainingTask& task, const DeviceTraits& device);

  /// Blocks of each stage, as the runtime cuts for stages that are equally fast.
  const std::vector<int>& equal(int stages);
  /// For --stage-speeds: the runtime then gives the stages these numbers of blocks, at least one
  /// each. Empty: it does so without. No other cut is as good for the speeds that are the costs of
  /// the stages themselves: its slowest stage would take longer. They are rounded as far as the cut
  /// stays this one.
  std::vector<double> speeds_for(const std::vector<int>& blocks);

 private:
  std::vector<int> blocks(int stages, const std::vector<double>& speeds) const;

  Graph graph_;
  Value loss_;
  std::vector<int> block_of_;
  std::vector<double> cost_;  // FLOPs of each block
  std::map<int, std::vector<int>> equal_;
};

}  // namespace trireme::layouts
