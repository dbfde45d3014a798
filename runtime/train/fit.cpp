// Continues Trainer (trireme/train/trainer.h).
// The loop around steps. At a step boundary everything is decided alike by all ranks, from the step's number and from what
// they agreed on with its loss: whether to save, and whether to stop.
#include <algorithm>
#include <cmath>

#include <unistd.h>

#include "trireme/kernels/device.h"

#include "runtime/job/terminal.h"
#include "runtime/train/trainer_agreement.h"
#include "runtime/train/trainer_state.h"

namespace trireme {
namespace {

/// GEMM rate, in the type that is computed with, that this rank can have while all ranks of its node compute: on a CPU its
/// part of the cores, where they are fewer than threads; of a GPU its part.
double gemm_flops(const Trainer::State& s) {
  const double best = measure_gemm_flops(s.context.stream(), s.context.options().compute());
  if (s.context.device().kind() == DeviceKind::cuda)
    return best / static_cast<double>(s.context.options().ranks_per_gpu);
  const auto node_threads =
      static_cast<double>(s.node_ranks * s.context.options().threads_per_rank);
  const auto cores = static_cast<double>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  return best * std::min(1.0, cores / node_threads);
}

double sum_over_ranks(const Host& host, double value) {
  host.all_reduce({&value, 1, DType::f64}, Reduction::sum);
  return value;
}

/// Collective.
ReporterOptions reporter_options(const Trainer::State& s) {
  const Options& o = s.context.options();
  const Host& host = s.context.host();
  ReporterOptions reports;
  reports.train_iters = o.train_iters;
  reports.log_interval = o.log_interval;
  reports.progress_bar = host.rank() == 0 && o.log_level != LogLevel::quiet && stdout_is_terminal();
  reports.peak_flops = sum_over_ranks(host, gemm_flops(s));
  reports.flops_per_step = sum_over_ranks(
      host, s.train->model().flops() * static_cast<double>(s.context.micro_batches()));
  s.context.log().info(str("GEMM peak of all ranks together, ", name(o.compute()), ": ",
                           std::round(reports.peak_flops / 1e8) / 10, " GFLOP/s; ",
                           std::round(reports.flops_per_step / 1e7) / 100, " GFLOP a step"));
  return reports;
}

/// Collective. Only rank 0 has a file. A job that goes on takes back the lines of steps that it does again.
std::unique_ptr<MetricsFile> open_metrics(const Trainer::State& s) {
  const Options& o = s.context.options();
  const bool goes_on = !o.checkpoint.load.empty() && !o.checkpoint.finetune;
  std::unique_ptr<MetricsFile> file;
  Index removed = 0;
  Problems problems;
  problems.collect([&] {
    file = std::make_unique<MetricsFile>(s.context.mesh().rank() == 0 ? o.metrics : "");
    if (goes_on) removed = file->go_back_to(s.progress.step);
  });
  agree_on(s.context.host(), problems);
  if (removed > 0)
    s.context.log().info(str("--metrics ", o.metrics, ": ", removed, " lines after step ",
                             s.progress.step, " are removed; these steps are done again"));
  return file;
}

/// What all ranks are told when the last saves failed; empty when the last one succeeded.
std::string failed_saves(const Checkpointer& checkpointer) {
  const Index failures = checkpointer.failures(), committed = checkpointer.last_committed();
  if (failures == 0) return "";
  return str(failures == 1 ? "the last save" : str("the last ", failures, " saves"),
             " failed: ", checkpointer.last_failure(),
             committed < 0 ? "; this job has no checkpoint"
                           : str("; the newest checkpoint is that of step ", committed));
}

enum class End { finished, stopped, diverged };

/// Collective. The same on all ranks.
End run_steps(Trainer& trainer, Trainer::State& s, DataSource& train, DataSource* validation) {
  const Options& o = s.context.options();
  if (!o.profile_ops.empty() && s.progress.step >= o.profile_step)
    s.context.log().info(str("--profile-ops ", o.profile_ops, ": nothing is profiled: step ",
                             o.profile_step, " of --profile-step is done already"));
  Reporter reporter(s.context.log(), reporter_options(s));
  const std::unique_ptr<MetricsFile> file = open_metrics(s);
  reporter.header();
  bool save_due = false;
  for (;;) {
    StepMetrics metrics = trainer.step(train);
    const bool last = metrics.step == o.train_iters;
    const bool diverged = metrics.skipped_in_row >= o.max_skipped;
    const bool evaluates = !diverged && !s.agreed.stop && validation != nullptr &&
                           o.eval_interval > 0 && (metrics.step % o.eval_interval == 0 || last);
    if (evaluates) metrics.valid_loss = s.run_evaluation(*validation, o.eval_iters, true);
    reporter.step(metrics);
    file->append(metrics);
    if (diverged) return End::diverged;
    if (s.agreed.stop) return End::stopped;
    if (last) return End::finished;
    if (!s.checkpointer) continue;
    save_due = save_due || s.agreed.save || s.checkpointer->due(metrics.step);
    if (save_due && !metrics.skipped) {
      s.checkpointer->save(s.last_update, train);
      save_due = false;
    } else {
      s.checkpointer->poll();
    }
  }
}

/// Collective. The last save. A state whose gradients were not finite pushes out no older one.
void finish_saves(Trainer::State& s, End end, const DataSource& train) {
  if (end != End::diverged)
    s.checkpointer->save(s.last_update, train);  // unless --save has it already
  if (s.progress.step == s.last_update.step)
    s.checkpointer->finish();
  else
    s.checkpointer->wait();
}

/// "; the newest checkpoint is ...": where to begin again.
std::string where_to_go_back(const Trainer::State& s, const std::string& failed) {
  if (!failed.empty()) return "; " + failed;
  const std::string& directory = s.context.options().checkpoint.save;
  const Index newest = s.checkpointer ? s.checkpointer->last_committed() : -1;
  if (newest < 0) return "; this job has no checkpoint";
  if (newest < s.last_update.step)
    return str("; go back to the newest checkpoint, that of step ", newest, ", with --load ",
               directory, " and, for example, a smaller --lr");
  return str(
      "; the newest checkpoint is that of the same step and leads here again; go back to an "
      "older one with --load ",
      directory, " --ckpt-step N");
}

std::string describe_divergence(const Trainer::State& s, const std::string& failed) {
  const Index skipped = s.progress.step - s.last_update.step;
  return str("stopped after step ", s.progress.step, ": the gradients of the last ",
             skipped == 1 ? "step" : str(skipped, " steps"), " were not finite (--max-skipped ",
             s.context.options().max_skipped, "); ",
             s.last_update.step == 0 ? "no step has made an update"
                                     : str("the last update was that of step ", s.last_update.step),
             where_to_go_back(s, failed));
}

/// What is saved when all have agreed to stop.
std::string describe_saved(const Trainer::State& s) {
  if (s.last_update.step == s.progress.step) return "which is saved";
  return str("and step ", s.last_update.step, ", the last with an update, is saved");
}

std::string why_stopped(const Context& context) {
  const std::string_view reason = context.stop_reason();
  return std::string(reason.empty() ? "another rank was told to stop" : reason);
}

}  // namespace

void Trainer::State::stop_after_training() const {
  context.log().info(why_stopped(context) +
                     ": stopped after training, whose end is saved; start again with --load " +
                     context.options().checkpoint.save + " to do what follows it");
  throw Stopped();
}

void Trainer::fit(DataSource& train, DataSource* validation) {
  State& s = *state_;
  const Options& o = s.context.options();
  const Log& log = s.context.log();
  agree_on_data(s.context.host(), validation, "validation data");
  resume(train);

  End end = End::finished;
  if (s.progress.step < o.train_iters)
    end = run_steps(*this, s, train, validation);
  else
    log.info(o.train_iters == 0
                 ? str("nothing is trained: --train-iters 0")
                 : str("nothing is left to train: step ", s.progress.step,
                       " is done, and --train-iters counts from the first step of the run to ",
                       o.train_iters));
  std::string failed;
  if (s.checkpointer) {
    finish_saves(s, end, train);
    failed = failed_saves(*s.checkpointer);
  }
  if (end == End::diverged) throw JobError(describe_divergence(s, failed), ExitCode::diverged);
  if (end == End::stopped) {
    const std::string stopped =
        str(why_stopped(s.context), ": stopped after step ", s.progress.step);
    if (!failed.empty()) throw JobError(stopped + ", but " + failed);
    log.info(stopped + ", " + describe_saved(s) + "; start again with --load " + o.checkpoint.save +
             " to go on");
    throw Stopped();
  }
  s.dump_parameters();
  if (!failed.empty()) throw JobError("training is finished, but " + failed);
}

}  // namespace trireme
