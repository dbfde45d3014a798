// Trainer: traces a model, plans it for this rank, allocates everything once, and trains it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/sidecar.h"
#include "trireme/data/source.h"
#include "trireme/graph/model.h"
#include "trireme/job/run.h"
#include "trireme/train/metrics.h"

namespace trireme {

struct GenerateOptions {
  std::vector<std::int32_t> prompt;  // at least one token
  Index count = 0;
  double temperature = 1;  // 0: always the most probable token
  Index top_k = 0;         // draw from so many of the most probable tokens; 0: from all
  /// Draw from the fewest of those, the most probable ones, whose probabilities add up to this.
  double top_p = 1;
  std::vector<std::int32_t> stops = {};  // tokens that end the text, of which they are no part
  Index number = 0;                      // number of the text: each number draws other tokens
};

/// What a planner says of a step.
struct StepPrediction {
  double seconds = 0;
  Index bytes = 0;  // need of the rank that needs most on its device, libraries included
};

/// Gets the result of one sample: f32 on the host, packed, without dim 0; valid during the call.
using OutputSink = std::function<void(Index sample, const Tensor& result)>;

class Trainer {
 public:
  struct State;  // is defined inside of trireme

  /// Collective. Throws: ConfigurationError, on all ranks alike, when the model cannot be traced,
  /// cut or placed in memory (the message lists the largest tensors), or a data input's dim 0 is
  /// not the micro-batch, or no op uses it.
  Trainer(Context& context, const Model& model);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Collective, before the first step. Resumes from the checkpoint given by --load, if there is
  /// one; fit() does this first. `train`: the source of the training. Throws: ConfigurationError
  /// when the checkpoint is of another model or other data, JobError when no checkpoint is
  /// complete.
  void resume(DataSource& train);
  /// On all ranks or none, before fit(), which then logs after 20 steps of this job what rank 0
  /// gives here beside what was measured.
  void compare_with(const StepPrediction& predicted);
  /// Collective. Steps until --train-iters are done, with log lines, metrics and evaluations on
  /// `validation` (may be null).
  void fit(DataSource& train, DataSource* validation = nullptr);
  void fit(DataSource&& train) { fit(train); }
  /// Collective. Replaces fit() when nothing is trained: loads the parameters from the checkpoint
  /// given by --load, if any, whatever its data and optimizer were. `tokenizer`: of the data and
  /// texts of this job; where it is known it must be the checkpoint's. Throws: as resume(), and
  /// ConfigurationError when there is no checkpoint.
  void load_parameters(const UsedTokenizer& tokenizer = {});

  /// Collective. One step on the next global batch.
  StepMetrics step(DataSource& train);
  Index steps_done() const;
  /// Collective. Mean loss per target over the first `batches` global batches, one or more. Throws:
  /// ConfigurationError on all ranks when `batches` differs between them, or with
  /// Options::forward_only the data; Stopped when ranks agree to stop (Context::stop_reason) and
  /// the state is saved, as after fit().
  double evaluate(DataSource& validation, Index batches);
  /// The metrics of the last evaluation, in the order of Graph::metric; valid until the next one.
  std::span<const Metric> evaluation_metrics() const;
  /// Collective. Tokens that follow the prompt, the same for every layout: `count` of them, or
  /// fewer before the token that stops them. Needs Model::logits. Throws: Stopped, as evaluate()
  /// does; JobError on all ranks when logits are not finite.
  std::vector<std::int32_t> generate(const GenerateOptions& options);
  /// Collective. Runs Model::result on samples 0 to samples - 1 of `source` and hands each result
  /// to `sink`, in this order, on rank 0; the sinks of other ranks are not called. The targets of
  /// the source need not count. Throws: ConfigurationError on all ranks without Model::result,
  /// with samples < 1, or where `samples` differs between ranks; Stopped, as evaluate() does;
  /// JobError on all ranks when `sink` throws.
  void outputs(DataSource& source, Index samples, const OutputSink& sink);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace trireme
