// The fastest plans of a model on GPUs of several types that fit: of each family, and of each
// choice of types, so that it shows when one is better left out.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/planner/search/search.h"
#include "runtime/planner/unequal/exact.h"

namespace trireme::planner {

/// A plan that fits: of several types, or the best layout of one group alone.
struct Choice {
  unsigned groups = 0;  // bit i: group i of the cluster is used
  double seconds = 0;   // of a step
  std::optional<ExactPlan> plan;
  std::optional<Evaluated> alone;
  std::string not_launched;  // why it cannot be launched yet; empty: it can
};

struct UnequalResult {
  /// Fastest first. Where none of these can be launched, the fastest that can comes behind them.
  std::vector<Choice> best;
  int launched = -1;  // the fastest of `best` that can be launched; -1: none
  /// The fastest of each choice of groups that can be launched, fastest first.
  std::vector<Choice> subsets;
  double equal_shares = 0;  // seconds of the launched one with equal shares; 0: of one group
  int considered = 0, planned = 0, refused = 0;  // plans; `refused`: by their exact plans
};

/// Of a cluster with 2 to most_groups groups. Throws: Error when the model cannot be planned.
UnequalResult search_unequal(const TrainingTask& task, const Cluster& cluster,
                             const SearchAim& aim);

}  // namespace trireme::planner
