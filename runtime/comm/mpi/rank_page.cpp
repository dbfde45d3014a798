#include "runtime/comm/mpi/rank_page.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include <fmt/core.h>

#include "trireme/core/error.h"

#include "runtime/comm/mpi/mpi_session.h"
#include "runtime/observe/remote/page_agent.h"
#include "runtime/observe/remote/sweep.h"

namespace trireme {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Of a supervisor on another machine: the first rank of each node starts it.
void start_agent_of_node(const std::string& pages, int rank) {
  try {
    observe::start_agent(variable("TRIREME_PAGES_AGENT"), pages);
  } catch (const Error& error) {
    fmt::print(stderr,
               "trireme[rank {}]: warning: the supervisor does not see the status pages of this "
               "node: TRIREME_PAGES_AGENT: {}\n",
               rank, error.what());
  }
}

/// What earlier attempts have left would hold memory of GPUs, and write into snapshots. The other
/// ranks of the node wait in MPI_Init() meanwhile.
void sweep_node(observe::StatusPage& page, const std::string& pages, int rank) {
  constexpr double longest_s = 60;
  const observe::RunAttempt attempt{variable("TRIREME_RUN_KEY"),
                                    std::atoll(variable("TRIREME_ATTEMPT").c_str())};
  page.enter(observe::Phase::sweep);
  const auto waits = [&] { page.progressed(); };
  try {
    const observe::Sweep found = observe::end_earlier_attempts(attempt, longest_s, waits);
    if (found.any()) {
      observe::await_free_gpus(longest_s, waits);
      fmt::print(
          stderr, "trireme[rank {}]: of earlier attempts on this node, ended {} processes{}\n",
          rank, found.ended,
          found.left == 0 ? "" : fmt::format("; {} have not ended after SIGKILL", found.left));
    }
    observe::remove_earlier_directories(attempt,
                                        std::filesystem::path(pages).parent_path().string());
    observe::remove_earlier_directories(attempt, variable("OMPI_MCA_orte_tmpdir_base"));
  } catch (const std::exception& error) {  // also of std::filesystem
    fmt::print(stderr,
               "trireme[rank {}]: warning: earlier attempts on this node are not ended: {}\n", rank,
               error.what());
  }
  page.enter(observe::Phase::start);
}

}  // namespace

RankPage::RankPage() : page_(std::make_unique<observe::StatusPage>()) {
  const char* directory = std::getenv("TRIREME_PAGES");
  if (directory == nullptr || *directory == '\0') return;
  const std::optional<LaunchedRank> launched = launched_rank();
  if (!launched) return;
  try {
    page_ = std::make_unique<observe::StatusPage>(directory, launched->rank, launched->ranks);
    capture_ = std::make_unique<observe::StackCapture>(*page_);
  } catch (const Error& error) {
    fmt::print(stderr, "trireme[rank {}]: no status page: TRIREME_PAGES={}: {}\n", launched->rank,
               directory, error.what());
    return;
  }
  // With several hosts; on its own machine the supervisor does both.
  if (variable("TRIREME_PAGES_AGENT").empty() || variable("OMPI_COMM_WORLD_LOCAL_RANK") != "0")
    return;
  sweep_node(*page_, directory, launched->rank);
  start_agent_of_node(directory, launched->rank);
}

}  // namespace trireme
