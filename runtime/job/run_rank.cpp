// The sequence of a rank: options, agreement, device and mesh, the program.
#include "runtime/job/run_rank.h"

#include <algorithm>

#include <fmt/core.h>

#include "trireme/kernels/device.h"

#include "kernels/cuda.h"
#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/comm/nccl.h"
#include "runtime/core/process/terminal.h"
#include "runtime/core/seconds_since.h"
#include "runtime/job/device_choice.h"
#include "runtime/job/gemm_peak.h"
#include "runtime/job/gpu_health.h"
#include "runtime/job/rank_agreement.h"
#include "runtime/options/check_options.h"

namespace trireme::job {
namespace {

/// Collective. Throws: ConfigurationError when ranks were started with different options.
/// `problems`: what each has found so far.
void agree_on_options(const Host& host, const StartFacts& mine, Problems& problems) {
  constexpr std::size_t most = 10;
  for (const auto* facts : {&mine.program, &mine.given, &mine.effective}) {
    const std::vector<std::string> differences = differences_between_ranks(host, *facts, most);
    for (const std::string& difference : differences) problems.add(difference);
    if (!differences.empty()) agree_on(host, problems);
  }
}

/// What the marks of the effective configuration mean.
std::string legend(const CheckpointOptions& checkpoint, bool chosen) {
  std::string from = checkpoint.use_checkpoint_args ? "from the checkpoint"
                     : !checkpoint.load_hf.empty()  ? "from config.json"
                                                    : "";
  if (chosen) from += from.empty() ? "chosen" : ", or chosen";
  return "effective configuration (* given" + (from.empty() ? "" : ", + " + from) + ")";
}

void describe(const Context& context, const CommandLine& command, bool chosen) {
  const Log& log = context.log();
  log.info(context.mesh().shape().describe());
  log.info(str("device: ", context.device().describe()));
  log.info(str("collectives: ", context.mesh().memory_description()));
  log.info(legend(context.options().checkpoint, chosen));
  const std::string before = "#   ";
  const std::string text = command.effective(columns_of_text() - static_cast<int>(before.size()));
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    log.line(before + text.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Collective.
void open_gpu(const DeviceChoice& choice, const Host& host, const Options& options,
              RankResources& resources) {
  if (!choice.cuda) return;
  agree_or_stop(host, [&] {
    resources.gpu = open_cuda({choice.gpu, choice.module, options.gemm_cache});
    resources.gpu_stream = resources.gpu->make_stream();
  });
  NcclOptions nccl;
  nccl.serialize = options.serialize_communication;
  nccl.order_check = options.check_collectives ? OrderCheck::on : OrderCheck::off;
  nccl.module = choice.module;
  resources.gpu_mesh = open_nccl_mesh(host.mesh, *resources.gpu, nccl);
}

/// Signals are checked on every rank, the time limit on rank 0 only.
std::function<std::string_view()> stop_reason(const StartedRank& rank, double seconds) {
  return [&rank, limited = rank.rank == 0 && seconds > 0, seconds]() -> std::string_view {
    if (const std::string_view signal = rank.signal(); !signal.empty()) return signal;
    return limited && seconds_since(rank.started) >= seconds ? "--exit-duration-seconds" : "";
  };
}

}  // namespace

StartedRank started_by(MpiSession& session, observe::StatusPage& page) {
  return {session.rank(),
          session.size(),
          session.node_rank(),
          session.node_size(),
          [&session](const MeshShape& shape) { return session.make_mesh(shape); },
          page};
}

int run_rank(const StartedRank& rank, const Program& program, RankResources& resources) {
  const Application& application = program.application;
  Options options = application.defaults;
  CommandLine command(application.name, application.description);
  Problems problems;
  StartFacts facts;
  rank.page.enter(observe::Phase::mesh);
  std::unique_ptr<Mesh>& mesh = resources.mesh;
  mesh = rank.make_mesh(MeshShape(rank.ranks, 1, 1));
  const CommandLine::Outcome outcome =
      read_options(program.argc, program.argv, application, command, options, *mesh,
                   {rank.ranks, rank.node_ranks}, facts, problems);
  rank.begin(options);
  std::string cores = widen_affinity(options.threads_per_rank,
                                     str("--threads-per-rank ", options.threads_per_rank));
  const std::unique_ptr<Device> cpu = open_cpu({static_cast<int>(options.threads_per_rank)});
  const std::unique_ptr<Stream> cpu_stream = cpu->make_stream();
  agree_on_options({*mesh, *cpu_stream}, facts, problems);
  if (outcome != CommandLine::Outcome::run) {
    if (rank.rank == 0) fmt::print("{}", command.text_of(outcome));
    return static_cast<int>(ExitCode::success);
  }
  set_gpu_environment(options, rank.rank, rank.ranks);
  const DeviceChoice choice = choose_device(options, {*mesh, *cpu_stream}, cuda_module(), problems);
  rank.page.set_sharing(choice.cuda ? options.ranks_per_gpu : 0);
  if (choice.cuda && cores.empty())
    cores = widen_affinity(2, "NCCL's and checkpoints' threads run beside each rank");
  if (choice.cuda && !options.gemm_cache.empty())
    open_gemm_directory(options.gemm_cache, {*mesh, *cpu_stream}, problems);
  agree_on({*mesh, *cpu_stream}, problems);

  mesh = rank.make_mesh(MeshShape(static_cast<int>(options.data_size(rank.ranks)),
                                  static_cast<int>(options.pipeline_size),
                                  static_cast<int>(options.tensor_size)));
  rank.page.set_coordinates(mesh->shape().short_place(mesh->rank()));
  const Host host{*mesh, *cpu_stream};
  open_gpu(choice, host, options, resources);
  // Who sends what a job evaluates or generates into a file or a pipe wants nothing else there.
  const bool only_results = options.forward_only && terminal_columns() == 0;
  const Log log(rank.rank, options.log_level, only_results ? stderr : stdout);
  Context context(options, resources.gpu_mesh ? *resources.gpu_mesh : *mesh,
                  resources.gpu_stream ? *resources.gpu_stream : *cpu_stream, host, log,
                  command.configuration(),
                  stop_reason(rank, options.checkpoint.exit_duration_seconds));
  describe(context, command, facts.chosen);
  if (!facts.from_checkpoint.empty()) log.info(facts.from_checkpoint);
  if (const std::string idle = idle_options(command, options, rank.ranks); !idle.empty())
    log.info("idle in this job: " + idle);
  if (!choice.reason.empty())
    log.info("device: no GPU is used: " + choice.reason +
             (options.gemm_cache.empty() ? "" : "; --gemm-cache is not used either"));
  if (!cores.empty()) log.info(cores);
  std::unique_ptr<observe::HealthMonitor> health;
  if (choice.cuda) health = watch_gpus(host, resources.gpu->identity(), rank.node_rank == 0, log);
  rank.page.enter(observe::Phase::program);
  program.f(context);
  rank.page.enter(observe::Phase::finish);
  return static_cast<int>(ExitCode::success);
}

}  // namespace trireme::job
