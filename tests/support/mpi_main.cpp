// main of test programs that run under mpirun. Tests are collective: every rank runs the same ones,
// in the same order. Only rank 0 prints, except for failures. A failure on any rank is a failure of
// the program.
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/mpi_ranks.h"
#include "tests/support/scratch_directory.h"

namespace trireme {

namespace {
MpiSession* session = nullptr;
}

MpiSession& mpi_session() { return *session; }

namespace {

/// Says which rank a failure belongs to.
class RankReporter final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", session->rank(),
                   result.file_name() ? result.file_name() : "?", result.line_number(),
                   result.message());
  }
};

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // With a status page, as jobs of `trireme run` have one.
  const ScratchDirectory folder{ScratchDirectory::in_memory()};
  const LaunchedRank launched = launched_rank().value_or(LaunchedRank{});
  observe::StatusPage page(folder.path(), launched.rank, launched.ranks);
  MpiSession mpi(argc, argv, &page);
  session = &mpi;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (mpi.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new RankReporter);
  }
  GTEST_FLAG_SET(catch_exceptions, false);
  try {
    return RUN_ALL_TESTS();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", mpi.rank(), error.what());
    std::_Exit(1);  // mpirun then ends the others, which wait for this one
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) { return trireme::run_tests(argc, argv); }
