// The sequence of run(): transport, options, agreement, device and mesh, the program; and how each
// failure is reported.
#include "trireme/job/run.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include <fmt/core.h>
#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/device.h"

#include "kernels/cuda.h"
#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/comm/mpi/rank_page.h"
#include "runtime/comm/nccl.h"
#include "runtime/core/text/exception_text.h"
#include "runtime/core/process/process_start.h"
#include "runtime/job/affinity.h"
#include "runtime/job/device_choice.h"
#include "runtime/job/gemm_directory.h"
#include "runtime/job/gpu_environment.h"
#include "runtime/job/gpu_health.h"
#include "runtime/job/layout/check_layout.h"
#include "runtime/job/layout/plan_only.h"
#include "runtime/job/program_options.h"
#include "runtime/job/rank_agreement.h"
#include "runtime/job/stop_signals.h"
#include "runtime/options/field_names.h"
#include "runtime/options/idle_options.h"

namespace trireme {

using namespace job;

namespace {

using Clock = std::chrono::steady_clock;

/// Wait this long for the failing rank to report its error and to end the job. Only if it does not,
/// report what this rank knows.
constexpr std::chrono::seconds time_to_report(10);

int exit_code(ExitCode code) { return static_cast<int>(code); }

/// Clean-up after an error may block forever, for example when a GPU waits for a message that never
/// arrives. SIGALRM then ends the process, whatever call it is blocked in, and mpirun ends the
/// others.
void limit_clean_up() {
  constexpr unsigned seconds = 60;
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(seconds);
}

/// A rank that fails alone ends all others, which may wait for it in a collective.
int fail(Mesh* mesh, int rank, const std::string& message) {
  std::fflush(stdout);
  fmt::print(stderr, "trireme[rank {}] error: {}\n", rank, with_options(message));
  std::fflush(stderr);
  limit_clean_up();
  if (mesh != nullptr && mesh->shape().size() > 1) mesh->abort(exit_code(ExitCode::failure));
  return exit_code(ExitCode::failure);
}

/// Call it in a catch block.
bool is_peer_error() {
  try {
    throw;
  } catch (const PeerError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string basename(const char* path) { return std::filesystem::path(path).filename().string(); }

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
  const std::string text = command.effective();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    log.info("  " + text.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// Null if the CPU trains. In order of creation.
struct Gpu {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Mesh> mesh;
};

/// Collective.
void open_gpu(const DeviceChoice& choice, const Host& host, const Options& options, Gpu& gpu) {
  if (!choice.cuda) return;
  agree_or_stop(host, [&] {
    gpu.device = open_cuda({choice.gpu, choice.module, options.gemm_cache});
    gpu.stream = gpu.device->make_stream();
  });
  NcclOptions nccl;
  nccl.serialize = options.serialize_communication;
  nccl.order_check = options.check_collectives ? OrderCheck::on : OrderCheck::off;
  nccl.module = choice.module;
  gpu.mesh = open_nccl_mesh(host.mesh, *gpu.device, nccl);
}

/// The arguments of run().
struct Program {
  int argc;
  char** argv;
  const Application& application;
  const std::function<void(Context&)>& f;
  observe::StatusPage& page;
  Clock::time_point started = Clock::now();
};

/// Signals are checked on every rank, the time limit on rank 0 only.
std::function<std::string_view()> stop_reason(const StopSignals& signals, int rank, double seconds,
                                              Clock::time_point started) {
  return [&signals, limited = rank == 0 && seconds > 0, seconds, started]() -> std::string_view {
    if (const int signal = signals.first()) return signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
    const std::chrono::duration<double> passed = Clock::now() - started;
    return limited && passed.count() >= seconds ? "--exit-duration-seconds" : "";
  };
}

std::string coordinates_of(const Mesh& mesh) {
  return fmt::format("pp{} dp{} tp{}", mesh.coordinate(Axis::pipeline), mesh.coordinate(Axis::data),
                     mesh.coordinate(Axis::tensor));
}

/// Of the rank that failed first.
void wait_for_the_report(observe::StatusPage& page) {
  for (const Clock::time_point end = Clock::now() + time_to_report; Clock::now() < end;
       std::this_thread::sleep_for(std::chrono::milliseconds(50)))
    page.heartbeat();
}

/// From the options to the end of the program. `mesh` and `gpu` outlive it, so that a failure is
/// reported before they are cleaned up.
int run_program(MpiSession& session, StopSignals& signals, const Program& program,
                std::unique_ptr<Mesh>& mesh, Gpu& gpu) {
  const Application& application = program.application;
  Options options = application.defaults;
  CommandLine command(application.name, application.description);
  Problems problems;
  signals.unblock();  // reading the files of options and data may block forever
  StartFacts facts;
  program.page.enter(observe::Phase::mesh);
  mesh = session.make_mesh(MeshShape(session.size(), 1, 1));
  const CommandLine::Outcome outcome =
      read_options(program.argc, program.argv, application, command, options, *mesh,
                   {session.size(), session.node_size()}, facts, problems);
  if (options.checkpoint.save.empty())
    signals.restore();
  else
    signals.watch();
  std::string cores = widen_affinity(options.threads_per_rank,
                                     str("--threads-per-rank ", options.threads_per_rank));
  const std::unique_ptr<Device> cpu = open_cpu({static_cast<int>(options.threads_per_rank)});
  const std::unique_ptr<Stream> cpu_stream = cpu->make_stream();
  agree_on_options({*mesh, *cpu_stream}, facts, problems);
  if (outcome != CommandLine::Outcome::run) {
    if (session.rank() == 0) fmt::print("{}", command.text_of(outcome));
    return exit_code(ExitCode::success);
  }
  set_gpu_environment(options, session.rank(), session.size());
  const DeviceChoice choice = choose_device(options, {*mesh, *cpu_stream}, cuda_module(), problems);
  if (choice.cuda && cores.empty())
    cores = widen_affinity(2, "NCCL's and checkpoints' threads run beside each rank");
  if (choice.cuda && !options.gemm_cache.empty())
    open_gemm_directory(options.gemm_cache, {*mesh, *cpu_stream}, problems);
  agree_on({*mesh, *cpu_stream}, problems);

  mesh = session.make_mesh(MeshShape(static_cast<int>(options.data_size(session.size())),
                                     static_cast<int>(options.pipeline_size),
                                     static_cast<int>(options.tensor_size)));
  program.page.set_coordinates(coordinates_of(*mesh));
  const Host host{*mesh, *cpu_stream};
  open_gpu(choice, host, options, gpu);
  const Log log(session.rank(), options.log_level);
  Context context(options, gpu.mesh ? *gpu.mesh : *mesh, gpu.stream ? *gpu.stream : *cpu_stream,
                  host, log, command.configuration(),
                  stop_reason(signals, session.rank(), options.checkpoint.exit_duration_seconds,
                              program.started));
  describe(context, command, facts.chosen);
  if (!facts.from_checkpoint.empty()) log.info(facts.from_checkpoint);
  if (const std::string idle = idle_options(command, options, session.size()); !idle.empty())
    log.info("idle in this job: " + idle);
  if (!choice.reason.empty())
    log.info("device: no GPU is used: " + choice.reason +
             (options.gemm_cache.empty() ? "" : "; --gemm-cache is not used either"));
  if (!cores.empty()) log.info(cores);
  std::unique_ptr<observe::HealthMonitor> health;
  if (choice.cuda) health = watch_gpus(host, gpu.device->identity(), session.node_rank() == 0, log);
  program.page.enter(observe::Phase::program);
  program.f(context);
  program.page.enter(observe::Phase::finish);
  return exit_code(ExitCode::success);
}

int run_session(MpiSession& session, StopSignals& signals, const Program& program) {
  std::unique_ptr<Mesh> mesh;
  Gpu gpu;
  try {
    return run_program(session, signals, program, mesh, gpu);
  } catch (const Stopped&) {
    return exit_code(ExitCode::stopped);
  } catch (const ConfigurationError& error) {
    program.page.fail(error.what());
    if (session.rank() == 0) fmt::print(stderr, "{}\n", with_options(error.what()));
    return exit_code(ExitCode::configuration);
  } catch (const JobError& error) {
    program.page.fail(error.what());
    if (session.rank() == 0) fmt::print(stderr, "trireme error: {}\n", with_options(error.what()));
    limit_clean_up();
    return exit_code(error.code());
  } catch (...) {
    if (is_peer_error()) wait_for_the_report(program.page);
    program.page.fail(current_exception_text());
    const int code = fail(mesh.get(), session.rank(), current_exception_text());
    if (session.size() > 1) throw;  // there is no mesh yet: the session ends the job as it unwinds
    return code;
  }
}

/// The job, from the start of MPI to its end.
int run_ranks(int& argc, char**& argv, const Program& program) {
  StopSignals signals;  // before MPI starts threads, and until it has ended
  program.page.enter(observe::Phase::mpi_init);
  MpiSession session(argc, argv, &program.page);
  return run_session(session, signals, program);
}

}  // namespace

void agree_on(const Host& host, const Problems& mine) {
  const auto all = gather_lists(host, mine.all());
  std::vector<std::string> order;
  std::map<std::string, std::vector<int>> ranks_of;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (const std::string& problem : all[rank]) {
      if (ranks_of[problem].empty()) order.push_back(problem);
      ranks_of[problem].push_back(static_cast<int>(rank));
    }
  if (order.empty()) return;
  std::string message = str("trireme: this configuration cannot run: ", order.size(),
                            order.size() == 1 ? " problem" : " problems");
  for (const std::string& problem : order) {
    const std::vector<int>& ranks = ranks_of[problem];
    message += "\n  - ";
    if (ranks.size() < all.size())
      message += str("rank ", ranks.front(), ranks.size() > 1 ? " and others: " : ": ");
    message += problem;
  }
  throw ConfigurationError(message);
}

void agree_or_stop(const Host& host, const std::function<void()>& work) {
  try {
    agree(host, work);
  } catch (const Error& error) {
    throw JobError(error.what());
  }
}

int run(int argc, char** argv, const std::function<void(Context&)>& f) {
  Application application;
  application.name = basename(argv[0]);
  return run(argc, argv, application, f);
}

int run(int argc, char** argv, const Application& application,
        const std::function<void(Context&)>& f) {
  try {
    prepare_process();
    if (const auto layouts = layouts_to_check(argc, argv))
      return check_layouts(*layouts, argc, argv, application, f);
    if (const auto layout = layout_to_print(argc, argv))
      return print_layout(*layout, argc, argv, application, f);
    RankPage page;
    const Program program{argc, argv, application, f, page.page()};
    const int code = run_ranks(argc, argv, program);
    if (code == exit_code(ExitCode::success)) page.page().enter(observe::Phase::finished);
    return code;
  } catch (...) {
    return fail(nullptr, 0, current_exception_text());
  }
}

}  // namespace trireme
