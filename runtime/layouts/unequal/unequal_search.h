// The fastest plans of a model on GPUs of several types that fit: of each family, and of each
// choice of types, so that it shows when one is better left out.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/cost/step_time.h"
#include "runtime/layouts/search/search.h"
#include "runtime/layouts/unequal/gpu_type.h"
#include "runtime/layouts/unequal/unequal_plan.h"

namespace trireme::layouts {

// ExactPlanner: an UnequalPlan by the plans of its ranks. Each kind of pipeline is planned as if
// all replicas were like it, with as many micro-batches as the one that runs most of them has; of
// each stage the plan for its own type of GPU is taken. Kinds of pipelines have slices of the
// optimizer by the speed of their updates and by their memory, where that is better than equal
// slices.

/// One kind of pipelines of a plan.
struct KindFacts {
  cost::StepTime time;
  std::vector<Index> bytes;  // one per stage: its tightest rank, with context and communicators
  std::vector<Index> limits;
  Updaters updates;  // how much of the optimizer one of them may have, and its time for all

  /// Returns the seconds before rest(): gradient sums that nothing hides, and the update.
  double busy() const { return time.total - rest(); }
  double rest() const { return time.data_traffic + time.contention + time.optimizer; }
  bool fits() const;
};

struct ExactPlan {
  UnequalPlan plan;
  UnequalParts parts;            // parts for the command line
  std::vector<KindFacts> kinds;  // in the order of the plan's
  /// Seconds of a step: the slowest kind until all micro-batches are done, and the longest rest of
  /// any.
  double seconds = 0;

  bool fits() const;
  /// Returns the part of the optimizer that one rank of a kind has.
  double slice(std::size_t kind) const;
};

class ExactPlanner {
 public:
  ExactPlanner(const TrainingTask& task, std::vector<GpuType>& types, ModelCut& cut)
      : task_(task), types_(types), cut_(cut) {}

  /// Throws: Error when the model cannot be cut so.
  ExactPlan plan(const UnequalPlan& plan);
  /// Returns the seconds of a step with shares that are as equal as the number of micro-batches
  /// allows.
  double seconds_of_equal_shares(const UnequalPlan& plan);
  /// Why train_gpt would refuse it; empty: it would train.
  std::string problem_of(const UnequalPlan& plan);

 private:
  ExactPlan plan_with(const UnequalPlan& plan, const DataShares& optimizer);
  KindFacts facts_of(const UnequalPlan& plan, std::size_t kind, Index micro_batches,
                     const DataShares& optimizer = {});
  cost::Network network_of(const UnequalPlan& plan, const PipelineKind& kind) const;
  ExactPlan put_together(const UnequalPlan& plan, std::vector<KindFacts> kinds,
                         const DataShares& optimizer = {});

  const TrainingTask& task_;
  std::vector<GpuType>& types_;
  ModelCut& cut_;
};

/// A plan that fits: of several types, or the best layout of one group alone.
struct Choice {
  unsigned groups = 0;  // bit i: group i of the cluster is used
  double seconds = 0;   // time of a step
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

/// Searches a cluster with 2 to most_groups groups. Throws: Error when the model cannot be planned.
UnequalResult search_unequal(const TrainingTask& task, const Cluster& cluster,
                             const SearchAim& aim);

}  // namespace trireme::layouts
