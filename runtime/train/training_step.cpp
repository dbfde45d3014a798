// Continues Trainer (trireme/train/trainer.h).
// One step, and evaluation. Nothing here allocates once the loop runs.
#include <algorithm>
#include <chrono>
#include <exception>

#include "trireme/optim/learning_rate.h"

#include "runtime/train/trainer_state.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Of all ranks with the same loss, one counts.
bool counts_losses(const Mesh& mesh) {
  return mesh.coordinate(Axis::tensor) == 0 &&
         mesh.coordinate(Axis::pipeline) == mesh.shape().size(Axis::pipeline) - 1;
}

StepPart part_of(Optimizer::Part part) {
  switch (part) {
    case Optimizer::Part::norm:
      return StepPart::gradient_norm;
    case Optimizer::Part::update:
      return StepPart::update;
    case Optimizer::Part::gather:
      break;
  }
  return StepPart::gather_parameters;
}

}  // namespace

double Trainer::State::sum_of_losses(double value) {
  double sum = counts_losses(context.mesh()) ? value : 0;
  context.host().all_reduce({&sum, 1, DType::f64}, Reduction::sum);
  return sum;
}

double Trainer::State::end_step(double loss) {
  const auto vote = [](bool yes) { return yes ? 1.0 : 0.0; };
  double sums[3] = {counts_losses(context.mesh()) ? loss : 0, vote(!context.stop_reason().empty()),
                    vote(checkpointer && checkpointer->votes_to_save())};
  context.host().all_reduce({sums, 3, DType::f64}, Reduction::sum);
  agreed = {sums[1] > 0, sums[2] > 0};
  return sums[0];
}

Index Trainer::State::load(InputBatch& inputs, DataSource& source, Index first) {
  const Mesh& mesh = context.mesh();
  const bool counts = mesh.coordinate(Axis::tensor) == 0 && mesh.coordinate(Axis::pipeline) == 0;
  Index totals[3] = {0, 0, context.stop_reason().empty() ? 0 : 1};  // targets, failures, votes
  std::exception_ptr failure;
  inputs.wait();
  try {
    const Index targets = inputs.load(source, first);
    totals[0] = counts ? targets : 0;
  } catch (...) {
    failure = std::current_exception();
    totals[1] = 1;
  }
  context.host().all_reduce({totals, 3, DType::i64}, Reduction::sum);
  if (totals[1] > 0)
    agree_or_stop(context.host(), [&] {
      if (failure) std::rethrow_exception(failure);
    });
  if (totals[0] == 0)
    throw JobError(str("no sample from ", first, " to ",
                       first + context.options().global_batch_size - 1,
                       " has a target (DataSource::fill returned 0 for each): the loss is a mean "
                       "over the targets of a global batch"));
  agreed.stop = totals[2] > 0;
  return totals[0];
}

StepMetrics Trainer::step(DataSource& source) {
  State& s = *state_;
  const Clock::time_point start = Clock::now();
  StepMetrics metrics;
  metrics.step = s.progress.step + 1;
  const bool profiled = s.is_profiled(metrics.step);
  if (profiled && s.profile) s.profile->begin();
  metrics.targets = s.load(*s.train_inputs, source, s.progress.samples);
  metrics.lr = s.learning_rate->at(metrics.step);
  const auto targets = static_cast<double>(metrics.targets);
  s.mark(StepPart::data);

  s.train_inputs->begin(metrics.step, 1 / targets);
  s.reducer->begin_step();
  s.mark(StepPart::zero_gradients);
  s.start_micro_batches(profiled);
  s.train_inputs->queued(s.context.stream());
  s.reducer->finish();
  s.mark(StepPart::gradient_sums);
  if (s.progress.step == 0) s.dump_gradients();
  if (s.checkpointer) s.checkpointer->before_update();
  s.optimizer->start_step(metrics.lr, [&](Optimizer::Part part) { s.mark(part_of(part)); });
  // All is queued: from here on the host waits for a GPU, but never the GPU for its host.
  metrics.loss = s.end_step(s.train->loss()) / targets;
  const StepReport report = s.optimizer->finish_step();

  metrics.grad_norm = report.grad_norm;
  metrics.skipped = report.skipped;
  metrics.step_ms = milliseconds_since(start);
  if (profiled) s.report_profile(metrics.step, metrics.step_ms);
  s.last_step_ms = metrics.step_ms;
  ++s.progress.step;
  s.progress.samples += s.context.options().global_batch_size;
  s.progress.updates = s.optimizer->updates();
  s.progress.skipped += report.skipped ? 1 : 0;
  if (!report.skipped) {
    s.last_update = s.progress;
    if (s.checkpointer) s.checkpointer->after_update();
  }
  metrics.skipped_in_row = s.progress.step - s.last_update.step;
  return metrics;
}

std::optional<double> Trainer::State::run_evaluation(DataSource& validation, Index batches,
                                                     bool may_stop) {
  require(batches >= 1, "Trainer::evaluate needs at least one global batch, not ", batches);
  double loss = 0;
  Index targets = 0;
  for (Index i = 0; i < batches; ++i) {
    targets += load(*evaluate_inputs, validation, i * context.options().global_batch_size);
    if (agreed.stop && may_stop) return {};
    evaluate_inputs->begin(progress.step, 1);
    evaluate->start(*evaluate_inputs);
    evaluate_inputs->queued(context.stream());
    loss += evaluate->loss();
  }
  return sum_of_losses(loss) / static_cast<double>(targets);
}

double Trainer::evaluate(DataSource& validation, Index batches) {
  const std::optional<double> loss =
      state_->run_evaluation(validation, batches, state_->is_saved());
  if (!loss) state_->stop_after_training();
  return *loss;
}

}  // namespace trireme
