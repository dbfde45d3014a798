// Bounds of layouts that need no plan of them: a step takes at least so long, a rank needs at least
// so much. They come from what the first block, one in the middle and the last one cost.
//
// Not installed; modules above may include it.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/plan/plan_cache.h"
#include "runtime/planner/search/least_step.h"

namespace trireme::planner {

class Estimator {
 public:
  struct Least {
    double seconds = 0;  // never more than step_time() of its plan
    Index bytes = 0;     // never more than device_bytes() of its plan
  };

  /// `network`: but for ports between nodes, which least() is given, in all layouts. `programs`:
  /// shared with others.
  Estimator(const TrainingTask& task, const Profile& profile, const Network& network,
            std::shared_ptr<ProgramCache> programs = std::make_shared<ProgramCache>());

  /// `spec`: of the layout's candidate.
  Least least(const Layout& layout, const TrainingSpec& spec, const Network& network);
  /// Never more than step_time() of its plan either, nearer to it, and dearer.
  double simulated(const Layout& layout, const TrainingSpec& spec, const Network& network);
  /// Bytes that parameters, gradients and optimizer need alone: no more than those.
  Index state_bytes(const Layout& layout, const TrainingSpec& spec);

 private:
  /// What was said of a layout: one search of a cluster asks what another one has asked.
  struct Known {
    std::optional<Least> least;
    std::optional<double> simulated;
  };
  Known& known(const Layout& layout, const Network& network);
  Least find_least(const Layout& layout, const TrainingSpec& spec, const Network& network);
  double find_simulated(const Layout& layout, const TrainingSpec& spec, const Network& network);
  /// Whether pieces say what its stages cost.
  bool is_known(const TrainingSpec& spec) const;
  std::vector<LeastStage> stages(const Layout& layout, const PipelineShape& shape);
  Index bytes(const Layout& layout, const TrainingSpec& spec,
              const std::vector<LeastStage>& stages);
  /// How many blocks each virtual stage has, by the runtime's own cut.
  const std::vector<int>& blocks(int stages, const Pieces& pieces);
  /// Slots of each chunk of a pipeline rank.
  const std::vector<int>& slots(const Layout& layout, const PipelineShape& shape, int stage);
  /// Parameters of all stages, of a tensor rank.
  double elements(const Layout& layout);
  double state_of(double elements, const TrainingSpec& spec) const;
  /// Of the device, whatever the model.
  Index fixed_bytes(const Layout& layout) const;

  const TrainingTask& task_;
  const Profile profile_;
  PieceMaker pieces_;
  bool alike_;  // all blocks but the first and the last; else nothing is known beside the products
  std::map<std::tuple<int, double, double, double>, std::vector<int>> blocks_;
  std::map<std::tuple<ScheduleKind, int, int, Index, int>, std::vector<int>> slots_;
  std::shared_ptr<ProgramCache> programs_;
  std::map<int, double> elements_;  // by tensor size
  /// By layout, and the rate of ports between nodes.
  std::map<std::pair<Layout, double>, Known> known_;
};

}  // namespace trireme::planner
