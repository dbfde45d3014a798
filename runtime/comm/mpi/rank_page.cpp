#include "runtime/comm/mpi/rank_page.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/core.h>

#include "trireme/core/error.h"

#include "runtime/comm/mpi/mpi_session.h"

namespace trireme {

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
  }
}

}  // namespace trireme
