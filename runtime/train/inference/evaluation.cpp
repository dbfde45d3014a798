#include "trireme/train/evaluation.h"

#include <algorithm>
#include <exception>

#include "runtime/core/text/exception_text.h"
#include "runtime/train/trainer_agreement.h"
#include "runtime/train/trainer_state.h"

namespace trireme {

using namespace train;

namespace {

Index batches_of(const TokenSweep& source, const Options& options) {
  return (source.samples() + options.global_batch_size - 1) / options.global_batch_size;
}

/// Means over the parts by their weights.
EvaluationMetrics blend_of(std::span<const EvaluationMetrics> parts,
                           std::span<const SweptPart> sources) {
  EvaluationMetrics blend{parts.front().step, "blend"};
  double weights = 0, bytes = 0;
  bool knows_bytes = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double weight = sources[i].path.weight;
    blend.targets += parts[i].targets;
    blend.loss += weight * parts[i].loss;
    bytes += weight * parts[i].bytes_per_target.value_or(0);
    knows_bytes = knows_bytes && parts[i].bytes_per_target;
    weights += weight;
  }
  blend.loss /= weights;
  if (knows_bytes) blend.bytes_per_target = bytes / weights;
  return blend;
}

}  // namespace

std::vector<EvaluationMetrics> evaluate_parts(Context& context, Trainer& trainer,
                                              std::span<const SweptPart> parts) {
  require(!parts.empty(), "evaluate_parts was given no data");
  Sinks& sinks = sinks_of(trainer);
  open_metrics(context, sinks);
  std::vector<EvaluationMetrics> all;
  const auto add = [&](EvaluationRecord record) {
    agree_or_stop(context.host(), [&] { sinks.take(record); });
    all.push_back(std::move(record));
  };
  for (const SweptPart& part : parts) {
    const double loss = trainer.evaluate(*part.source, batches_of(*part.source, context.options()));
    add({{trainer.steps_done(), part.path.prefix, part.source->targets(), loss,
          part.source->bytes_per_target()}});
  }
  if (parts.size() > 1) add({blend_of(all, parts), parts.size()});
  return all;
}

// Model::result of one sample after another.

namespace {

/// Throws: Error that names the sample when the sink throws anything.
void hand_out(const OutputSink& sink, Index sample, const Tensor& row) {
  try {
    sink(sample, row);
  } catch (...) {
    throw Error(str("the function given to Trainer::outputs, sample ", sample, ": ",
                    current_exception_text()));
  }
}

/// Collective. Hands out the rows of the global batch that begins at sample `first`, of a stream of
/// `samples`, on rank 0. Throws: JobError on all ranks when the sink throws.
void hand_out(const Context& context, const PlannedTraining& plan, OutputBatch& batch, Index first,
              Index samples, const OutputSink& sink) {
  std::exception_ptr failure;
  Tensor row = plan.outputs->sample;
  const Index size = plan.spec.micro_batch_size;
  for (int data = 0; data < context.data_size(); ++data) {
    const MicroBatchRange range = plan.spec.micro_batches(data);
    const Index begin = first + range.first * size;
    const Index end = std::min(begin + range.count * size, samples);
    if (begin >= end) break;  // on all ranks alike
    const float* rows = batch.collect(data, range.count * size, context);
    if (context.mesh().rank() != 0 || failure) continue;
    try {
      for (Index sample = begin; sample < end; ++sample) {
        row.data = const_cast<float*>(rows) + (sample - begin) * row.count();
        hand_out(sink, sample, row);
      }
    } catch (...) {
      failure = std::current_exception();
    }
  }
  agree_or_stop(context.host(), [&] {
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace

bool Trainer::State::run_outputs(DataSource& source, Index samples, const OutputSink& sink) {
  need_values();
  enter_evaluation();
  OutputBatch& batch = *bound.outputs_batch;
  for (Index first = 0; first < samples; first += context.options().global_batch_size) {
    load(batch.inputs(), source, first, samples);
    if (agreed.stop && is_saved()) return false;
    batch.inputs().begin(progress.step);
    bound.outputs->start(batch, {.step = progress.step});
    batch.queued();
    hand_out(context, plan, batch, first, samples, sink);
  }
  return true;
}

void Trainer::outputs(DataSource& source, Index samples, const OutputSink& sink) {
  State& s = *state_;
  const State::Call call(s);
  agree_on_count(s.context.host(), samples, "samples of outputs");
  Problems problems;
  if (!s.bound.outputs)
    problems.add("Trainer::outputs needs Model::result: set it before the Trainer is constructed");
  if (samples < 1) problems.add("Trainer::outputs needs at least one sample, not ", samples);
  agree_on(s.context.host(), problems);
  agree_on_data(s.context.host(), &source, "data of outputs");
  if (!s.run_outputs(source, samples, sink)) s.stop_after_training();
}

}  // namespace trireme
