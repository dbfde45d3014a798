// Answer: all that `trireme plan` says of a model and a cluster; report.h prints it.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/layouts/search/search.h"

namespace trireme::layouts {

// What a user asks next: why not another layout, what would be faster, and on what the model fits.

/// A layout that is not among the best, planned exactly, and the reason.
struct NearRefusal {
  Evaluated layout;
  Verdict verdict = Verdict::memory;  // memory, or slower
  /// Where it does not fit: the layout of the same tp and pp that needs least, if that does not fit
  /// either.
  std::optional<Evaluated> leanest;
};

/// A change of the cluster, and the best layout with it.
struct Lever {
  std::string change;  // "140.4 GiB a GPU, as H200"
  double seconds = 0;  // time of a step
  std::optional<Layout> layout;
};

/// The least number of the same nodes on which a layout fits.
struct SmallestFit {
  int gpus = 0;
  Evaluated layout;
};

/// Returns at most `most`, each of another tp and pp, nearest first: those that would be fastest,
/// did they fit, and then those that fit and are slower.
std::vector<NearRefusal> nearest_refusals(Searcher& searcher, const GpuGroup& group,
                                          const SearchResult& result, int most = 3);
std::vector<Lever> find_levers(Searcher& searcher, const GpuGroup& group, const SearchAim& aim,
                               const SearchResult& result);
/// Returns nothing where up to 32 times as many nodes, and at most 256 more, do not suffice.
std::optional<SmallestFit> find_smallest_fit(Searcher& searcher, const GpuGroup& group,
                                             const SearchAim& aim);
/// The considered layout that needs least memory, planned exactly; nothing: none can be planned.
std::optional<Evaluated> find_least_need(Searcher& searcher, const GpuGroup& group,
                                         const SearchResult& result);

/// What is asked, beside the task.
struct Question {
  Cluster cluster;
  SearchAim aim;
  double tokens = 0;  // to train on; 0: not given
  /// The words of train_gpt that the task was made of.
  std::vector<std::string> words;
  LayoutPins explain = {};  // not empty: one layout, part by part
  bool advises = true;      // also which layouts are refused, and what would help
};

/// One of the best that ran for a few steps.
struct TriedLayout {
  Layout layout;
  double predicted_s = 0, measured_s = 0;  // time of a step
  std::string problem;                     // why it did not train
};

struct Answer {
  SearchResult result;
  std::vector<TriedLayout> tried;  // in the order in which they were predicted
  std::vector<NearRefusal> refusals;
  std::vector<Lever> levers;
  // Where nothing fits.
  std::optional<Evaluated> least_need;
  std::optional<SmallestFit> fit;
  // Question::explain.
  std::optional<Evaluated> explained;
  std::string not_explained;  // why there is no such layout

  bool fits() const { return !result.best.empty(); }
  /// The fastest; fits() must hold.
  const Evaluated& chosen() const { return result.evaluated[result.best.front()]; }
};

/// Answers for a cluster with one group. Throws: Error when the model cannot be planned at all.
Answer answer(const TrainingTask& task, const Question& question);

/// What one step means for people.
struct Figures {
  double tokens_per_s = 0, mfu = 0, bubble = 0;  // bubble: share of the step
  double hours = 0, cost = 0, energy_kwh = 0;    // 0: unknown; energy: GPUs at their limits
};
Figures figures_of(const TrainingTask& task, const Question& question, const Evaluated& layout);

/// Bytes of a checkpoint, whatever the layout: parameters and state of the optimizer in f32.
Index checkpoint_bytes(const TrainingTask& task);

/// "mpirun -np 64 --map-by ppr:8:node train_gpt --config 70b.toml --tp 4 ...", as words.
std::vector<std::string> launch_words(const TrainingTask& task, const Question& question,
                                      const Layout& layout);

}  // namespace trireme::layouts
