// One step, the loop around it, and evaluation. Nothing here allocates once the loop runs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include <unistd.h>

#include "trireme/kernels/device.h"

#include "runtime/train/terminal.h"
#include "runtime/train/trainer_state.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// GEMM rate that this rank can have while all ranks of its node compute: its part of the cores, where they are fewer
/// than threads. The smaller product is measured too because it fits between the time slices of a busy machine.
double gemm_flops(Stream& stream, Index node_threads) {
  const double best = std::max(measure_gemm_flops(stream, 512), measure_gemm_flops(stream, 256));
  const auto cores = static_cast<double>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  return best * std::min(1.0, cores / static_cast<double>(node_threads));
}

double sum_over(Communicator& group, double value, Stream& stream) {
  group.all_reduce({&value, 1, DType::f64}, Reduction::sum, stream);
  stream.synchronize();
  return value;
}

}  // namespace

double Trainer::State::sum_of_losses(double value) {
  const Mesh& mesh = context.mesh();
  const bool counts = mesh.coordinate(Axis::tensor) == 0 &&
                      mesh.coordinate(Axis::pipeline) == mesh.shape().size(Axis::pipeline) - 1;
  return sum_over(context.mesh().world(), counts ? value : 0, context.stream());
}

Index Trainer::State::load(InputBatch& inputs, DataSource& source, Index first) {
  const Mesh& mesh = context.mesh();
  const bool counts = mesh.coordinate(Axis::tensor) == 0 && mesh.coordinate(Axis::pipeline) == 0;
  Index totals[2] = {0, 0};  // targets, ranks that failed
  std::exception_ptr failure;
  try {
    const Index targets = inputs.load(source, first);
    totals[0] = counts ? targets : 0;
  } catch (...) {
    failure = std::current_exception();
    totals[1] = 1;
  }
  Communicator& world = context.mesh().world();
  world.all_reduce({totals, 2, DType::i64}, Reduction::sum, context.stream());
  context.stream().synchronize();
  if (totals[1] > 0)
    agree_or_stop(world, context.stream(), [&] {
      if (failure) std::rethrow_exception(failure);
    });
  return totals[0];
}

StepMetrics Trainer::step(DataSource& source) {
  State& s = *state_;
  const Clock::time_point start = Clock::now();
  StepMetrics metrics;
  metrics.step = s.progress.step + 1;
  metrics.targets = s.load(*s.train_inputs, source, s.progress.samples);
  metrics.lr = s.learning_rate.at(metrics.step);
  const double targets =
      static_cast<double>(std::max<Index>(metrics.targets, 1));  // none: all gradients are zero

  s.train_inputs->begin(metrics.step, 1 / targets);
  s.reducer->begin_step();
  const double loss = s.train->run(*s.train_inputs);
  s.reducer->finish();
  if (s.progress.step == 0) s.dump_gradients();
  const StepReport report = s.optimizer->step(metrics.lr);

  metrics.loss = s.sum_of_losses(loss) / targets;
  metrics.grad_norm = report.grad_norm;
  metrics.skipped = report.skipped;
  metrics.step_ms = milliseconds_since(start);
  ++s.progress.step;
  s.progress.samples += s.context.options().global_batch_size;
  s.progress.updates = s.optimizer->updates();
  s.progress.skipped += report.skipped ? 1 : 0;
  return metrics;
}

double Trainer::evaluate(DataSource& validation, Index batches) {
  State& s = *state_;
  double loss = 0;
  Index targets = 0;
  for (Index i = 0; i < batches; ++i) {
    targets += s.load(*s.evaluate_inputs, validation, i * s.context.options().global_batch_size);
    s.evaluate_inputs->begin(s.progress.step, 1);
    loss += s.evaluate->run(*s.evaluate_inputs);
  }
  return s.sum_of_losses(loss) / static_cast<double>(std::max<Index>(targets, 1));
}

void Trainer::fit(DataSource& train, DataSource* validation) {
  State& s = *state_;
  const Options& o = s.context.options();
  Communicator& world = s.context.mesh().world();
  const bool writes = s.context.mesh().rank() == 0;
  resume(train);

  ReporterOptions reports;
  reports.train_iters = o.train_iters;
  reports.log_interval = o.log_interval;
  reports.progress_bar = writes && o.log_level != LogLevel::quiet && stdout_is_terminal();
  reports.peak_flops = sum_over(
      world, gemm_flops(s.context.stream(), s.node_ranks * o.threads_per_rank), s.context.stream());
  const double step_flops =
      sum_over(world, s.train->model().flops() * static_cast<double>(s.context.micro_batches()),
               s.context.stream());
  s.context.log().info(
      str("GEMM peak of all ranks together: ", std::round(reports.peak_flops / 1e8) / 10,
          " GFLOP/s; ", std::round(step_flops / 1e7) / 100, " GFLOP a step"));

  reports.flops_per_step = step_flops;
  Reporter reporter(s.context.log(), reports);
  MetricsFile file(writes ? o.metrics : "");
  reporter.header();
  while (s.progress.step < o.train_iters) {
    StepMetrics metrics = step(train);
    const bool evaluates = validation != nullptr && o.eval_interval > 0 &&
                           (metrics.step % o.eval_interval == 0 || metrics.step == o.train_iters);
    if (evaluates) metrics.valid_loss = evaluate(*validation, o.eval_iters);
    reporter.step(metrics);
    file.append(metrics);
  }
  s.dump_parameters();
}

}  // namespace trireme
