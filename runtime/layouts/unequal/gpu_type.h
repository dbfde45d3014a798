// GpuType: what one group of a cluster would take for parts of a model, estimated, and planned
// exactly.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "runtime/cost/network.h"
#include "runtime/layouts/search/cluster.h"
#include "runtime/layouts/search/training_task.h"
#include "runtime/layouts/unequal/share.h"

namespace trireme::layouts {

/// BlockCosts: what the ends of a model (embedding and head) and each of its blocks take, from
/// plans of the model with one and with two blocks, as all blocks are alike.
struct ByBlocks {
  double ends = 0, block = 0;
};

/// What a micro-batch costs on a rank that holds the whole model.
struct PassCosts {
  ByBlocks seconds;
  ByBlocks slot;  // bytes of a micro-batch in flight
};

/// Bytes of parameters, gradients and optimizer: what each data rank keeps, and what ZeRO-1 divides
/// among them.
struct HeldBytes {
  ByBlocks kept, shared;
};

/// What blocks of the model cost on one type of GPU.
class BlockCosts {
 public:
  BlockCosts(const TrainingTask& task, const cost::Profile& profile, const cost::Network& network);

  /// Throws: Error when the model has no such layout.
  const PassCosts& pass(const Layout& layout);
  const HeldBytes& held(int tensor);

 private:
  using Key = std::tuple<int, Index, RecomputeGranularity, bool, Index>;
  PassCosts measure(const Layout& layout);

  const TrainingTask& task_;
  const cost::Profile& profile_;
  const cost::Network& network_;
  std::unique_ptr<cost::LayoutPlanner> one_block_, two_blocks_;
  std::map<Key, PassCosts> pass_;
  std::map<int, HeldBytes> held_;  // by tensor size
};

/// A stage of a pipeline, counted from 0.
struct StagePlace {
  int stage = 0, stages = 1;
  /// Whether it updates what it holds, or as much as all others of the data axis under ZeRO-1; not:
  /// GPUs of other types there can do that for it.
  bool updates = true;

  bool is_last() const { return stage + 1 == stages; }
};

class GpuType {
 public:
  /// `margin`: share of the memory that stays free.
  GpuType(const TrainingTask& task, const GpuGroup& group, double margin);

  const GpuGroup& group() const { return group_; }
  Index limit() const { return limit_; }  // bytes that a rank may use

  /// A stage as a worker whose items are blocks, of a micro-batch: what the head takes comes first,
  /// and it has at most as many as its memory holds under 1f1b.
  Workers stage(const Layout& layout, const StagePlace& place);
  /// Returns the part of the optimizer that fits on a rank of a stage of so many blocks (ZeRO-1).
  double most_of_optimizer(const Layout& layout, const StagePlace& place, Index blocks);
  /// Returns what the data axis adds to a step at least: the updated parameters are gathered.
  double data_seconds(const Layout& layout);
  /// Throws: Error when the layout is not possible for the model.
  cost::PlannedLayout plan(const cost::Candidate& candidate) { return planner_->plan(candidate); }

 private:
  /// Estimates of what a stage needs: of its ends, and of each block.
  struct StageBytes {
    ByBlocks kept, shared;  // `shared`: what ZeRO-1 divides
    double most;            // maximum of both together
  };
  StageBytes bytes_of(const Layout& layout, const StagePlace& place);
  Index most_blocks(const Layout& layout, const StagePlace& place);

  const TrainingTask& task_;
  const GpuGroup& group_;
  Index limit_;
  std::unique_ptr<BlockCosts> costs_;
  std::unique_ptr<cost::LayoutPlanner> planner_;
};

std::vector<GpuType> gpu_types(const TrainingTask& task, const Cluster& cluster, double margin);

}  // namespace trireme::layouts
