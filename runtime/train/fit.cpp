// The loop around steps. At a step boundary everything is decided alike by all ranks, from the step's number and from what
// they agreed on with its loss: whether to save, and whether to stop.
#include <algorithm>
#include <cmath>

#include <unistd.h>

#include "trireme/kernels/device.h"

#include "runtime/train/terminal.h"
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
  host.world().all_reduce({&value, 1, DType::f64}, Reduction::sum, host.stream);
  return value;
}

/// Collective.
ReporterOptions reporter_options(const Trainer::State& s) {
  const Options& o = s.context.options();
  const Host& host = s.context.host();
  ReporterOptions reports;
  reports.train_iters = o.train_iters;
  reports.log_interval = o.log_interval;
  reports.progress_bar =
      host.world().rank() == 0 && o.log_level != LogLevel::quiet && stdout_is_terminal();
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

/// Collective. Returns whether all ranks have agreed to stop before the end.
bool run_steps(Trainer& trainer, Trainer::State& s, DataSource& train, DataSource* validation) {
  const Options& o = s.context.options();
  Reporter reporter(s.context.log(), reporter_options(s));
  const std::unique_ptr<MetricsFile> file = open_metrics(s);
  reporter.header();
  for (;;) {
    StepMetrics metrics = trainer.step(train);
    const bool last = metrics.step == o.train_iters;
    const bool evaluates = validation != nullptr && o.eval_interval > 0 &&
                           (metrics.step % o.eval_interval == 0 || last);
    if (evaluates) metrics.valid_loss = trainer.evaluate(*validation, o.eval_iters);
    reporter.step(metrics);
    file->append(metrics);
    if (last || s.agreed.stop) return s.agreed.stop;
    if (!s.checkpointer) continue;
    if (s.agreed.save || s.checkpointer->due(metrics.step))
      s.checkpointer->save(s.progress, train);
    else
      s.checkpointer->poll();
  }
}

}  // namespace

void Trainer::fit(DataSource& train, DataSource* validation) {
  State& s = *state_;
  const Options& o = s.context.options();
  const Log& log = s.context.log();
  resume(train);

  bool stop = false;
  if (s.progress.step < o.train_iters)
    stop = run_steps(*this, s, train, validation);
  else
    log.info(str("nothing is left to train: step ", s.progress.step, " of --train-iters ",
                 o.train_iters, " is done"));
  std::string failed;
  if (s.checkpointer) {
    s.checkpointer->save(s.progress, train);  // unless --save has it already
    s.checkpointer->finish();
    failed = failed_saves(*s.checkpointer);
  }
  if (stop) {
    const std::string reason(s.context.stop_reason());
    const std::string stopped = str(reason.empty() ? "another rank was told to stop" : reason,
                                    ": stopped after step ", s.progress.step);
    if (!failed.empty()) throw JobError(stopped + ", but " + failed);
    log.info(stopped + ", which is saved; start again with --load " + o.checkpoint.save +
             " to go on");
    throw Stopped();
  }
  s.dump_parameters();
  if (!failed.empty()) throw JobError("training is finished, but " + failed);
}

}  // namespace trireme
