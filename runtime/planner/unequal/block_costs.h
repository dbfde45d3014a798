// BlockCosts: what the ends of a model (embedding and head) and each of its blocks take, from plans
// of the model with one and with two blocks, as all blocks are alike.
//
// Not installed; modules above may include it.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "runtime/planner/network.h"
#include "runtime/planner/search/training_task.h"

namespace trireme::planner {

struct ByBlocks {
  double ends = 0, block = 0;
};

/// Of a micro-batch, on a rank that holds the whole model.
struct PassCosts {
  ByBlocks seconds;
  ByBlocks slot;  // bytes of a micro-batch in flight
};

/// Bytes of parameters, gradients and optimizer: what each data rank keeps, and what ZeRO-1 divides
/// among them.
struct HeldBytes {
  ByBlocks kept, shared;
};

/// Of one type of GPU.
class BlockCosts {
 public:
  BlockCosts(const TrainingTask& task, const Profile& profile, const Network& network);

  /// Throws: Error when the model has no such layout.
  const PassCosts& pass(const Layout& layout);
  const HeldBytes& held(int tensor);

 private:
  using Key = std::tuple<int, Index, RecomputeGranularity, bool, Index>;
  PassCosts measure(const Layout& layout);

  const TrainingTask& task_;
  const Profile& profile_;
  const Network& network_;
  std::unique_ptr<LayoutPlanner> one_block_, two_blocks_;
  std::map<Key, PassCosts> pass_;
  std::map<int, HeldBytes> held_;  // by tensor size
};

}  // namespace trireme::planner
