// Answer: all that `trireme plan` says of a model and a cluster; report.h prints it.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/planner/search/advice.h"

namespace trireme::planner {

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
  double predicted_s = 0, measured_s = 0;  // of a step
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

/// Of a cluster with one group. Throws: Error when the model cannot be planned at all.
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

}  // namespace trireme::planner
