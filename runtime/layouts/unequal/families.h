// Plans of a model on GPUs of several types, with what they take and need by estimate: of each
// family, all that its kinds of pipelines and the types of GPUs allow.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/layouts/unequal/kinds.h"
#include "runtime/layouts/unequal/unequal_plan.h"

namespace trireme::layouts {

/// At most so many groups of unequal nodes: all orders and subsets of them are tried.
constexpr int most_groups = 4;

class Families {
 public:
  Families(const TrainingTask& task, std::vector<GpuType>& types, ModelCut& cut,
           const LayoutPins& pins);

  /// With two types at least, by estimate, fastest first; schedule 1f1b with one chunk. Memory is
  /// the estimate of what each stage needs at least.
  std::vector<UnequalPlan> list();

 private:
  void take_setting(const Layout& setting);
  void add_replicas(const std::vector<int>& groups, Layout layout);
  void add_pipelines(const std::vector<int>& groups, Layout layout);
  void add_pipeline(const std::vector<int>& order, const Layout& layout, int replicas);
  void add_mixed(const Layout& setting);
  void add_packing(const std::vector<PipelineKind>& kinds, const std::vector<int>& counts,
                   const Layout& setting);
  /// Shares the micro-batches, and takes the plan, if its kinds match the pins.
  void add(UnequalPlan plan, const std::vector<Workers>& pipelines);

  bool holds_optimizer(const UnequalPlan& plan) const;
  std::vector<int> tensor_sizes() const;
  std::vector<Layout> settings() const;
  /// How many tensor groups it has, 0 where they would cross nodes.
  int tensor_groups(int group, int tensor) const;
  int common_divisor(const std::vector<int>& groups, int tensor) const;
  Index micro_batches(const Layout& layout) const;
  void set_replicas(Layout& layout, int count) const;

  const TrainingTask& task_;
  std::vector<GpuType>& types_;
  ModelCut& cut_;
  const LayoutPins& pins_;
  std::vector<UnequalPlan> plans_;
  double best_ = 0;  // estimate; 0: none yet
};

}  // namespace trireme::layouts
