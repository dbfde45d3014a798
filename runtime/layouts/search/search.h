// The fastest layouts of a model on equal GPUs that fit: layouts are taken in order of a lower
// bound of their step, which becomes tighter twice before a layout is planned exactly, and the
// search ends when no bound of another is less than the time of the last of the best. Of layouts
// that differ in details only the fastest is among the best.
//
// Not installed; modules above may include it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/cost/step_time.h"
#include "runtime/layouts/search/candidates.h"
#include "runtime/layouts/search/cluster.h"
#include "runtime/layouts/search/least_step.h"
#include "runtime/rank_plan/plan_cache.h"

namespace trireme::layouts {

/// Bounds of layouts that need no plan of them: a step takes at least so long, a rank needs at
/// least so much. They come from what the first block, one in the middle and the last one cost.
class Estimator {
 public:
  struct Least {
    double seconds = 0;  // never more than step_time() of its plan
    Index bytes = 0;     // never more than device_bytes() of its plan
  };

  /// `network`: but for ports between nodes, which least() is given, in all layouts. `programs`:
  /// shared with others.
  Estimator(const TrainingTask& task, const cost::Profile& profile, const cost::Network& network,
            std::shared_ptr<ProgramCache> programs = std::make_shared<ProgramCache>());

  /// `spec`: of the layout's candidate.
  Least least(const Layout& layout, const TrainingSpec& spec, const cost::Network& network);
  /// Never more than step_time() of its plan either, nearer to it, and dearer.
  double simulated(const Layout& layout, const TrainingSpec& spec, const cost::Network& network);
  /// Bytes that parameters, gradients and optimizer need alone: no more than those.
  Index state_bytes(const Layout& layout, const TrainingSpec& spec);

 private:
  /// What was said of a layout: one search of a cluster asks what another one has asked.
  struct Known {
    std::optional<Least> least;
    std::optional<double> simulated;
  };
  Known& known(const Layout& layout, const cost::Network& network);
  Least find_least(const Layout& layout, const TrainingSpec& spec, const cost::Network& network);
  double find_simulated(const Layout& layout, const TrainingSpec& spec,
                        const cost::Network& network);
  /// Whether pieces say what its stages cost.
  bool is_known(const TrainingSpec& spec) const;
  std::vector<LeastStage> stages(const Layout& layout, const PipelineShape& shape);
  Index bytes(const Layout& layout, const TrainingSpec& spec,
              const std::vector<LeastStage>& stages);
  /// Returns how many blocks each virtual stage has, by the runtime's own cut.
  const std::vector<int>& blocks(int stages, const Pieces& pieces);
  /// Slots of each chunk of a pipeline rank.
  const std::vector<int>& slots(const Layout& layout, const PipelineShape& shape, int stage);
  /// Parameters of all stages, of a tensor rank.
  double elements(const Layout& layout);
  double state_of(double elements, const TrainingSpec& spec) const;
  /// Returns the bytes that the device needs, whatever the model.
  Index fixed_bytes(const Layout& layout) const;

  const TrainingTask& task_;
  const cost::Profile profile_;
  PieceMaker pieces_;
  bool alike_;  // all blocks but the first and the last; else nothing is known beside the products
  std::map<std::tuple<int, double, double, double>, std::vector<int>> blocks_;
  std::map<std::tuple<ScheduleKind, int, int, Index, int>, std::vector<int>> slots_;
  std::shared_ptr<ProgramCache> programs_;
  std::map<int, double> elements_;  // by tensor size
  /// The keys are a layout, and the rate of ports between nodes.
  std::map<std::pair<Layout, double>, Known> known_;
};

/// A layout that was planned exactly: of the best all ranks, of others one of each stage.
struct Evaluated {
  Layout layout;
  cost::PlannedLayout plan;  // without its stages
  cost::StepTime time;
  Index bytes = 0;  // need of the tightest device that is planned, with context and communicators
};

/// How far a layout came. The names are the codes of --json.
enum class Verdict {
  fits,        // planned exactly: best, or slower than these
  state,       // refused: parameters, gradients and optimizer alone exceed the limit
  estimate,    // refused: what it needs at least exceeds the limit
  memory,      // refused by its exact plan
  impossible,  // refused by its exact plan: the model cannot be cut so
  slower,      // not planned: no faster than the best, or than one alike but for details
};
const char* name(Verdict verdict);

struct Considered {
  Layout layout;
  Verdict verdict = Verdict::slower;
  double least_seconds = 0;  // bound for a step
  Index least_bytes = 0;     // bound for the tightest rank; 0: not known
  int evaluated = -1;        // index in SearchResult::evaluated
  std::string problem = {};  // why it is impossible
};

struct SearchResult {
  std::vector<Considered> considered;  // all legal layouts
  std::vector<IllegalLayout> illegal;
  std::vector<Evaluated> evaluated;  // all that were planned exactly
  std::vector<std::size_t> best;     // indices of those that fit, fastest first
  Index limit = 0;                   // bytes of a device that may be used

  int count(Verdict verdict) const;
};

/// What is sought.
struct SearchAim {
  int best = 4;          // so many layouts
  double margin = 0.02;  // share of each device's memory that stays free
  LayoutPins pins = {};
  bool all_ranks = true;  // check that every rank of the best fits; false: one per stage
};

/// Keeps plans and estimates from one search to the next.
class Searcher {
 public:
  /// `device`: of all ranks, in all searches.
  Searcher(const TrainingTask& task, const DeviceTraits& device);
  ~Searcher();

  SearchResult search(const GpuGroup& group, const SearchAim& aim);
  /// A lower bound of a step; 0: none but that of its products.
  double least_seconds(const Layout& layout, const GpuGroup& group);
  /// The exact plan of all ranks of one layout, and its time. Throws: Error when the model cannot
  /// be cut so.
  Evaluated evaluate(const Layout& layout, const GpuGroup& group);
  /// Returns the layout with the least bound among those that match the pins, and that may fit if
  /// some may; nothing: none is legal, and `why` says why.
  std::optional<Evaluated> explain(const GpuGroup& group, const LayoutPins& pins, Index limit,
                                   std::string& why);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::layouts
