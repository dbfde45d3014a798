// run(): starts the transport, then the rank (run_rank), and reports how it ends.
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

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/comm/mpi/rank_page.h"
#include "runtime/core/process/this_process.h"
#include "runtime/core/text/exception_text.h"
#include "runtime/job/layout/check_layout.h"
#include "runtime/job/run_rank.h"
#include "runtime/job/stop_signals.h"

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
  fmt::print(stderr, "trireme[rank {}] error: {}\n", rank, message);
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

/// Of the rank that failed first.
void wait_for_the_report(observe::StatusPage& page) {
  for (const Clock::time_point end = Clock::now() + time_to_report; Clock::now() < end;
       std::this_thread::sleep_for(std::chrono::milliseconds(50)))
    page.heartbeat();
}

std::string_view signal_of(const StopSignals& signals) {
  const int signal = signals.first();
  return signal == 0 ? "" : signal == SIGTERM ? "SIGTERM" : "SIGUSR1";
}

int run_session(const MpiSession& session, const Program& program, const StartedRank& rank) {
  RankResources resources;
  try {
    return run_rank(rank, program, resources);
  } catch (const Stopped&) {
    return exit_code(ExitCode::stopped);
  } catch (const ConfigurationError& error) {
    rank.page.fail(error.what());
    if (session.rank() == 0) fmt::print(stderr, "{}\n", error.what());
    return exit_code(ExitCode::configuration);
  } catch (const JobError& error) {
    rank.page.fail(error.what());
    if (session.rank() == 0) fmt::print(stderr, "trireme error: {}\n", error.what());
    limit_clean_up();
    return exit_code(error.code());
  } catch (...) {
    if (is_peer_error()) wait_for_the_report(rank.page);
    rank.page.fail(current_exception_text());
    const int code = fail(resources.mesh.get(), session.rank(), current_exception_text());
    if (session.size() > 1) throw;  // there is no mesh yet: the session ends the job as it unwinds
    return code;
  }
}

/// The job, from the start of MPI to its end.
int run_ranks(int& argc, char**& argv, const Program& program, observe::StatusPage& page) {
  const Clock::time_point started = Clock::now();
  StopSignals signals;  // before MPI starts threads, and until it has ended
  page.enter(observe::Phase::mpi_init);
  MpiSession session(argc, argv, &page);
  StartedRank rank = started_by(session, page);
  rank.started = started;
  rank.begin = [&](const Options& options) {
    if (options.checkpoint.save.empty())
      signals.restore();
    else
      signals.watch();
  };
  rank.signal = [&] { return signal_of(signals); };
  signals.unblock();  // reading the files of options and data may block forever
  return run_session(session, program, rank);
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
      return exit_code_with_output(check_layouts(*layouts, argc, argv, application, f));
    if (const auto layout = layout_to_print(argc, argv))
      return exit_code_with_output(print_layout(*layout, argc, argv, application, f));
    RankPage page;
    const Program program{argc, argv, application, f};
    const int code = exit_code_with_output(run_ranks(argc, argv, program, page.page()));
    if (code == exit_code(ExitCode::success)) page.page().enter(observe::Phase::finished);
    return code;
  } catch (...) {
    return fail(nullptr, 0, current_exception_text());
  }
}

}  // namespace trireme
