// Continues Trainer (trireme/train/trainer.h). The loop around steps. At a step boundary all ranks
// make the same decisions, from the step's number and from what they agreed on with its loss:
// whether to save, and whether to stop.
#include <cmath>

#include "runtime/core/process/terminal.h"
#include "runtime/job/gemm_peak.h"
#include "runtime/train/tensor_dump.h"
#include "runtime/train/trainer_agreement.h"
#include "runtime/train/trainer_state.h"

namespace trireme {

using namespace train;

namespace {

double sum_over_ranks(const Host& host, double value) {
  host.all_reduce({&value, 1, DType::f64}, Reduction::sum);
  return value;
}

/// Collective.
ReporterOptions reporter_options(const Context& context, const PlannedTraining& plan) {
  const Options& o = context.options();
  const Host& host = context.host();
  given_gemm_rate(host);  // what is wrong there is said before the first step
  ReporterOptions reports;
  reports.train_iters = o.train_iters;
  reports.log_interval = o.log_interval;
  if (host.rank() == 0 && o.log_level != LogLevel::quiet) reports.columns = terminal_columns;
  reports.flops_per_step = sum_over_ranks(
      host, plan.train.model().flops() * static_cast<double>(context.micro_batches()));
  return reports;
}

/// Collective. After the first step, so that a job that is started again trains sooner.
void begin_reports(Reporter& reporter, const Context& context, int node_ranks,
                   double flops_per_step) {
  const double peak = gemm_peak_of_all_ranks(context, node_ranks);
  context.log().info(str("GEMM peak of all ranks together, ", name(context.options().compute()),
                         ": ", std::round(peak / 1e8) / 10, " GFLOP/s; ",
                         std::round(flops_per_step / 1e7) / 100, " GFLOP a step"));
  reporter.begin(peak);
}

/// Collective. Only rank 0 has a file. A job that resumes removes the lines of steps that it
/// repeats.
std::unique_ptr<MetricsFile> open_metrics(const Context& context, Index step) {
  const Options& o = context.options();
  const bool resumes = !o.checkpoint.load.empty() && !o.checkpoint.finetune;
  std::unique_ptr<MetricsFile> file;
  Index removed = 0;
  Problems problems;
  problems.collect([&] {
    file = std::make_unique<MetricsFile>(context.mesh().rank() == 0 ? o.metrics : "");
    if (resumes) removed = file->go_back_to(step);
  });
  agree_on(context.host(), problems);
  if (removed > 0)
    context.log().info(str("--metrics ", o.metrics, ": ", removed, " lines after step ", step,
                           " are removed; these steps are done again"));
  return file;
}

/// The message for all ranks when the last saves failed; empty when the last one succeeded.
std::string failed_saves(const Checkpointer& checkpointer) {
  const Index failures = checkpointer.failures(), committed = checkpointer.last_committed();
  if (failures == 0) return "";
  return str(failures == 1 ? "the last save" : str("the last ", failures, " saves"),
             " failed: ", checkpointer.last_failure(),
             committed < 0 ? "; this job has no checkpoint"
                           : str("; the newest checkpoint is that of step ", committed));
}

/// "; the newest checkpoint is ...": where to begin again.
std::string where_to_go_back(const std::string& directory, Index newest, Index last_update,
                             const std::string& failed) {
  if (!failed.empty()) return "; " + failed;
  if (newest < 0) return "; this job has no checkpoint";
  if (newest < last_update)
    return str("; go back to the newest checkpoint, that of step ", newest, ", with --load ",
               directory, " and, for example, a smaller --lr");
  return str(
      "; the newest checkpoint is that of the same step and leads here again; go back to an "
      "older one with --load ",
      directory, " --ckpt-step N");
}

/// What is saved when all have agreed to stop.
std::string describe_saved(Index step, Index last_update) {
  if (last_update == step) return "which is saved";
  return str("and step ", last_update, ", the last with an update, is saved");
}

/// All ranks have the same loss: one says so. `first`, `last`: the samples of these steps.
void warn_of_loss_spike(const Log& log, const StepMetrics& metrics, Index first, Index last) {
  if (log.rank() != 0) return;
  log.warning(str("loss spike: for ", LossSpikes::steps, " steps, to step ", metrics.step,
                  " with loss ", metrics.loss, ", the loss lies more than ", LossSpikes::deviations,
                  " median absolute deviations above the median of the last ", LossSpikes::window,
                  "; their samples are ", first, '-', last));
}

std::string why_stopped(const Context& context) {
  const std::string_view reason = context.stop_reason();
  return std::string(reason.empty() ? "another rank was asked to stop" : reason);
}

}  // namespace

void Trainer::State::announce_stop(Index last_step) {
  if (!stop_announced)
    context.log().info(str(why_stopped(context), ": stopping after step ", last_step,
                           "; the newest state will be saved"));
  stop_announced = true;
}

Trainer::State::End Trainer::State::run_steps(DataSource& train, DataSource* validation) {
  const Options& o = context.options();
  if (!o.profile_ops.empty() && progress.step >= o.profile_step)
    context.log().info(str("--profile-ops ", o.profile_ops, ": nothing is profiled: step ",
                           o.profile_step, " of --profile-step is done already"));
  const ReporterOptions reports = reporter_options(context, plan);
  Reporter reporter(context.log(), reports);
  const std::unique_ptr<MetricsFile> file = open_metrics(context, progress.step);
  LossSpikes spikes;
  bool save_due = false, snapshot_due = false, reported = false;
  for (;;) {
    running_step = progress.step + 1;
    announce_stop_if_asked();
    StepMetrics metrics = step(train);
    running_step = 0;
    if (!reported) begin_reports(reporter, context, node_ranks, reports.flops_per_step);
    reported = true;
    const bool last = metrics.step == o.train_iters;
    const bool diverged = metrics.skipped_in_row >= o.max_skipped;
    const bool evaluates = !diverged && !agreed.stop && validation != nullptr &&
                           o.eval_interval > 0 && (metrics.step % o.eval_interval == 0 || last);
    metrics.loss_spike = spikes.add(metrics.loss);
    if (metrics.loss_spike)
      warn_of_loss_spike(context.log(), metrics,
                         left_out.at(progress.samples - LossSpikes::steps * o.global_batch_size),
                         left_out.at(progress.samples - 1));
    if (evaluates) metrics.valid_loss = run_evaluation(*validation, o.eval_iters, true, false);
    if (metrics.valid_loss) {
      metrics.valid_bits_per_byte =
          bits_per_byte(*metrics.valid_loss, validation->bytes_per_target());
      metrics.valid_metrics = evaluation_metrics;
    }
    reporter.step(metrics);
    file->append(metrics);
    if (comparison) comparison->add(context, metrics.step_ms);
    if (diverged) return End::diverged;
    if (agreed.stop) {
      announce_stop(metrics.step);
      return End::stopped;
    }
    if (last) return End::finished;
    if (!checkpointer) continue;
    snapshot_due = snapshot_due || checkpointer->snapshot_due(metrics.step);
    if (snapshot_due && !metrics.skipped) {
      compare_replicas();
      checkpointer->save_snapshot(last_update);
      snapshot_due = false;
    }
    save_due = save_due || agreed.save || checkpointer->due(metrics.step);
    if (save_due && !metrics.skipped) {
      save(train);
      save_due = false;
    } else {
      checkpointer->poll();
    }
  }
}

void Trainer::State::save(const DataSource& train) {
  if (!context.options().checkpoint.save.empty()) compare_replicas();
  const bool compared = replicas.last_clean() == progress.step,
             twice = verification.last_clean() == progress.step;
  checkpointer->save(last_update, train,
                     compared && twice ? "replicas, step"
                     : compared        ? "replicas"
                     : twice           ? "step"
                                       : "",
                     verification.last_clean());
}

void Trainer::State::finish_saves(End end, const DataSource& train) {
  if (end != End::diverged) save(train);  // unless --save has it already
  if (progress.step == last_update.step)
    checkpointer->finish();
  else
    checkpointer->wait();
  checkpointer->end_snapshots(end != End::diverged && is_saved());
}

std::string Trainer::State::describe_divergence(const std::string& failed) const {
  const Index skipped = progress.step - last_update.step;
  return str("stopped after step ", progress.step, ": the gradients of the last ",
             skipped == 1 ? "step" : str(skipped, " steps"), " were not finite (--max-skipped ",
             context.options().max_skipped, "); ",
             last_update.step == 0 ? "no step has made an update"
                                   : str("the last update was that of step ", last_update.step),
             where_to_go_back(context.options().checkpoint.save,
                              checkpointer ? checkpointer->last_committed() : -1, last_update.step,
                              failed));
}

void Trainer::State::stop_after_training() const {
  if (!plan.spec.trains) {
    context.log().info(why_stopped(context) + ": stopped before the end; nothing was changed");
    throw Stopped();
  }
  context.log().info(why_stopped(context) +
                     ": stopped after training, whose end is saved; start again with --load " +
                     context.options().checkpoint.save + " to do what follows it");
  throw Stopped();
}

void Trainer::fit(DataSource& train, DataSource* validation) {
  State& s = *state_;
  const State::Call call(s);
  const Options& o = s.context.options();
  const Log& log = s.context.log();
  agree_on_data(s.context.host(), validation, "validation data");
  resume(train);

  State::End end = State::End::finished;
  if (s.progress.step < o.train_iters)
    end = s.run_steps(train, validation);
  else
    log.info(o.train_iters == 0
                 ? str("nothing is trained: --train-iters 0")
                 : str("nothing is left to train: step ", s.progress.step,
                       " is done, and --train-iters counts from the first step of the run to ",
                       o.train_iters));
  std::string failed;
  if (s.checkpointer) {
    s.page.enter(observe::Phase::save_wait);
    s.finish_saves(end, train);
    failed = failed_saves(*s.checkpointer);
  }
  if (end == State::End::diverged)
    throw JobError(s.describe_divergence(failed), ExitCode::diverged);
  if (end == State::End::stopped) {
    const std::string stopped =
        str(why_stopped(s.context), ": stopped after step ", s.progress.step);
    if (!failed.empty()) throw JobError(stopped + ", but " + failed);
    log.info(stopped + ", " + describe_saved(s.progress.step, s.last_update.step) +
             "; start again with --load " + o.checkpoint.save + " to resume");
    throw Stopped();
  }
  dump_parameters(s.bound.flat, s.context);
  if (!failed.empty()) throw JobError("training is finished, but " + failed);
}

}  // namespace trireme
