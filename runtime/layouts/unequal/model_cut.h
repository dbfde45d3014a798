// ModelCut: how many blocks each stage of a pipeline gets, and the speeds that make the runtime cut
// the model so.
#pragma once

#include <map>
#include <vector>

#include "trireme/graph/graph.h"

#include "runtime/layouts/search/training_task.h"

namespace trireme::layouts {

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
