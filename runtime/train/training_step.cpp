// One step of a Trainer, and one evaluation: their parts in order, what watches them, and what
// ranks agree on by them. Nothing here allocates once the loop runs.
#include <algorithm>
#include <chrono>
#include <exception>
#include <span>

#include "runtime/core/seconds_since.h"
#include "runtime/train/tensor_dump.h"
#include "runtime/train/trainer_agreement.h"
#include "runtime/train/trainer_state.h"

namespace trireme {

using namespace train;

namespace {

using Clock = std::chrono::steady_clock;

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

void Trainer::State::list_votes() {
  votes_ = {};
  votes_.add([this] { return context.stop_reason().empty() ? 0.0 : 1.0; },
             [this](double sum) { agreed.stop = sum > 0; });
  // The farthest tier comes first: the next snapshot may start what the vote of a copy is about.
  const std::vector<checkpoint::Tier*> none;
  const std::vector<checkpoint::Tier*>& tiers = checkpointer ? checkpointer->tiers() : none;
  for (auto tier = tiers.rbegin(); tier != tiers.rend(); ++tier)
    votes_.add([at = *tier] { return at->vote(); }, [at = *tier](double sum) { at->settle(sum); });
  sums_.resize(first_metric() + std::max(step_metrics.size(), evaluation_metrics.size()));
}

void Trainer::State::add_sums(Pass& pass) {
  if (context.mesh().coordinate(Role::tensor) != 0) return;  // of those with the same, one counts
  sums_[0] += pass.loss();
  for (std::size_t i = 0; i < pass.model().metrics.size(); ++i)
    sums_[first_metric() + i] += pass.metric(i);
}

double Trainer::State::finish_sums(double targets, std::vector<Metric>& metrics) {
  const auto count = static_cast<Index>(first_metric() + metrics.size());
  context.host().all_reduce({sums_.data(), count, DType::f64}, Reduction::sum);
  for (std::size_t i = 0; i < metrics.size(); ++i)
    metrics[i].value = sums_[first_metric() + i] / targets;
  return sums_[0] / targets;
}

void Trainer::State::agree(StepMetrics& metrics) {
  const std::span<double> votes = std::span(sums_).subspan(1, votes_.count());
  std::fill(sums_.begin(), sums_.end(), 0.0);
  add_sums(*bound.train);
  votes_.cast(votes);
  metrics.loss = finish_sums(static_cast<double>(metrics.targets), step_metrics);
  votes_.settle(votes);
  metrics.metrics = step_metrics;
  const StepReport report = bound.optimizer->finish_step();
  metrics.grad_norm = report.grad_norm;
  metrics.skipped = report.skipped;
  ++progress.step;
  progress.samples += context.options().global_batch_size;
  progress.updates = bound.optimizer->updates();
  progress.skipped += report.skipped ? 1 : 0;
  if (!report.skipped) last_update = progress;
  metrics.skipped_in_row = progress.step - last_update.step;
}

Index Trainer::State::load(InputBatch& inputs, DataSource& source, Index first,
                           std::optional<Index> end) {
  const Mesh& mesh = context.mesh();
  const bool counts = mesh.coordinate(Role::model) == 0;
  Index totals[3] = {0, 0, context.stop_reason().empty() ? 0 : 1};  // targets, failures, votes
  std::exception_ptr failure;
  inputs.wait();
  page.wait_for(observe::WaitsFor::data);
  try {
    const Index targets = end ? inputs.load(source, first, *end) : inputs.load(source, first);
    totals[0] = counts ? targets : 0;
  } catch (...) {
    failure = std::current_exception();
    totals[1] = 1;
  }
  page.stop_waiting();
  context.host().all_reduce({totals, 3, DType::i64}, Reduction::sum);
  if (totals[1] > 0)
    agree_or_stop(context.host(), [&] {
      if (failure) std::rethrow_exception(failure);
    });
  if (totals[0] == 0 && !end)
    throw JobError(str("no sample from ", first, " to ",
                       first + context.options().global_batch_size - 1,
                       " has a target (DataSource::fill returned 0 for each): the loss is a mean "
                       "over the targets of a global batch"));
  agreed.stop = totals[2] > 0;
  return totals[0];
}

void Trainer::State::list_observers() {
  StepObserver status, faults, profiler, saves, checks;
  status.begin = [this](Index step) {
    if (page.phase() != observe::Phase::step) page.enter(observe::Phase::step);
    page.begin_step(step);
    waited_before_ = page.waited_ns();
  };
  status.end = [this](const StepMetrics& metrics) {
    const auto ns = static_cast<std::int64_t>(metrics.step_ms * 1e6);
    page.end_step(metrics.step, ns - (page.waited_ns() - waited_before_), metrics.loss);
  };
  faults.begin = [this](Index step) { planted.begin_step(step); };
  faults.queued = [this](StepPart part) {
    if (part == StepPart::zero_gradients)
      planted.after_zero_gradients(progress.step + 1, bound.flat, context.stream());
  };
  faults.end = [this](const StepMetrics&) {
    planted.end_step(durable() != nullptr ? durable()->failures() : 0);
  };
  profiler.begin = [this](Index step) {
    if (profile && is_profiled(step)) profile->steps.begin();
  };
  profiler.queued = [this](StepPart part) {
    if (profile) profile->steps.mark(part);
  };
  profiler.end = [this](const StepMetrics& metrics) {
    if (is_profiled(metrics.step)) report_profile(context, profile.get(), metrics, last_step_ms_);
    last_step_ms_ = metrics.step_ms;
  };
  saves.before_update = [this] {
    if (checkpointer) checkpointer->before_update();
  };
  saves.end = [this](const StepMetrics& metrics) {
    if (!metrics.skipped && durable() != nullptr) durable()->delete_older();
  };
  checks.begin = [this](Index step) { verification.begin(step, is_profiled(step)); };
  checks.end = [this](const StepMetrics& metrics) {
    if (verification.hashes() != nullptr) stop_if_corrupted(verification.check(metrics.step));
    if (replicas.due(metrics.step)) compare_replicas();
  };
  observers_ = {status, faults, profiler, saves, checks};
}

void Trainer::State::compute_gradients(const StepMetrics& metrics) {
  StepHashes* const hashes = verification.hashes();
  StepScalars scalars{.step = metrics.step, .loss_scale = 1 / static_cast<double>(metrics.targets)};
  bound.optimizer->set_rates(scalars, metrics.lr);
  bound.reducer->hash_terms_with(hashes);
  for (int time = 0; time < (hashes != nullptr ? 2 : 1); ++time) {
    if (hashes != nullptr) hashes->begin(time);
    bound.train_inputs->begin(metrics.step);
    bound.reducer->begin_step();
    queued(StepPart::zero_gradients);
    if (profile && is_profiled(metrics.step)) {
      ProfiledBatch batch(*bound.train_inputs, profile->steps);
      bound.train->start(batch, scalars);
    } else {
      bound.train->start(*bound.train_inputs, scalars);
    }
    bound.train_inputs->queued(context.stream());
    bound.reducer->finish();
    queued(StepPart::gradient_sums);
    if (hashes != nullptr) hashes->hash_sums();
  }
  bound.reducer->hash_terms_with(nullptr);
}

void Trainer::State::update(const StepMetrics& metrics) {
  if (metrics.step == 1) dump_gradients(bound.flat, context);
  for (const StepObserver& observer : observers_) observer.before_update();
  bound.optimizer->start_step([&](Optimizer::Part part) { queued(part_of(part)); },
                              verification.hashes());
}

StepMetrics Trainer::State::step(DataSource& source) {
  need_training();
  need_values();
  const Clock::time_point start = Clock::now();
  StepMetrics metrics;
  metrics.step = progress.step + 1;
  for (const StepObserver& observer : observers_) observer.begin(metrics.step);
  metrics.targets = load(*bound.train_inputs, source, progress.samples);
  metrics.lr = learning_rate.at(metrics.step);
  queued(StepPart::data);
  compute_gradients(metrics);
  update(metrics);
  // All work is queued: from here on the host waits for a GPU, but the GPU never for its host.
  agree(metrics);
  metrics.step_ms = 1e3 * seconds_since(start);
  for (const StepObserver& observer : observers_) observer.end(metrics);
  return metrics;
}

void Trainer::State::compare_replicas() {
  if (replicas.on() && replicas.last_clean() != progress.step)
    planted.before_replicas_are_compared(bound.flat, context.stream());
  stop_if_corrupted(replicas.check(progress.step));
}

void Trainer::State::stop_if_corrupted(const std::string& wrong) {
  if (wrong.empty()) return;
  if (durable() != nullptr) durable()->finish();
  const Index newest = last_committed();
  throw JobError(wrong + (newest < 0 ? "; this job has no checkpoint"
                                     : str("; the newest checkpoint is that of step ", newest)),
                 ExitCode::corrupted);
}

std::optional<double> Trainer::State::run_evaluation(DataSource& validation, Index batches,
                                                     bool may_stop, bool reports) {
  constexpr auto between_lines = std::chrono::seconds(10);
  Clock::time_point next_line = Clock::now() + between_lines;
  require(batches >= 1, "Trainer::evaluate needs at least one global batch, not ", batches);
  need_values();
  enter_evaluation();
  Index targets = 0;
  std::fill(sums_.begin(), sums_.end(), 0.0);
  for (Index i = 0; i < batches; ++i) {
    targets += load(bound.evaluate_inputs, validation, i * context.options().global_batch_size);
    if (agreed.stop && may_stop) return {};
    bound.evaluate_inputs.begin(progress.step);
    bound.evaluate.start(bound.evaluate_inputs, {.step = progress.step});
    bound.evaluate_inputs.queued(context.stream());
    add_sums(bound.evaluate);
    if (!reports || Clock::now() < next_line) continue;
    next_line += between_lines;
    context.log().info(str("evaluation: ", i + 1, " of ", batches, " global batches"));
  }
  return finish_sums(static_cast<double>(targets), evaluation_metrics);
}

StepMetrics Trainer::step(DataSource& source) {
  const State::Call call(*state_);
  return state_->step(source);
}

std::span<const Metric> Trainer::evaluation_metrics() const { return state_->evaluation_metrics; }

double Trainer::evaluate(DataSource& validation, Index batches) {
  const State::Call call(*state_);
  // Where it trains, fit() has compared them, and nothing may be allocated here.
  if (!state_->plan.spec.trains)
    agree_on_data(state_->context.host(), &validation, "data of evaluate");
  agree_on_count(state_->context.host(), batches, "batches of evaluate");
  const std::optional<double> loss =
      state_->run_evaluation(validation, batches, state_->is_saved(), true);
  if (!loss) state_->stop_after_training();
  return *loss;
}

}  // namespace trireme
