// The directory of --gemm-cache as ranks find it.
#include <filesystem>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"

#include "runtime/job/gemm_peak.h"
#include "tests/support/recorded_problems.h"
#include "tests/support/scratch_directory.h"

namespace trireme::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// What each of `directories.size()` ranks finds wrong with its own.
std::vector<std::vector<std::string>> problems_of(const std::vector<std::string>& directories) {
  std::vector<std::vector<std::string>> all(directories.size());
  std::mutex mutex;
  run_on_threads(MeshShape(static_cast<int>(directories.size()), 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const auto rank = static_cast<std::size_t>(mesh.rank());
    test::RecordedProblems problems;
    open_gemm_directory(directories[rank], {mesh, *stream}, problems);
    const std::lock_guard lock(mutex);
    all[rank] = problems.all();
  });
  return all;
}

TEST(GemmDirectory, IsMadeAndLeftEmpty) {
  const ScratchDirectory folder;
  const std::string directory = folder / "cache";
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(problems_of({directory, directory, directory}),
                ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
    EXPECT_TRUE(std::filesystem::is_empty(directory));
  }
}

TEST(GemmDirectory, OfARankThatOthersDoNotSeeIsAProblemThere) {
  const ScratchDirectory folder;
  const std::string mine = folder / "mine", another = folder / "another";
  EXPECT_THAT(problems_of({mine, another, mine}),
              ElementsAre(IsEmpty(),
                          ElementsAre(HasSubstr("--gemm-cache " + another +
                                                ": what rank 0 writes there is not seen here")),
                          IsEmpty()));
}

TEST(GemmDirectory, ThatCannotBeWrittenIsAProblem) {
  const ScratchDirectory folder;
  const std::string good = folder / "good";
  EXPECT_THAT(problems_of({"/proc", good}),
              ElementsAre(ElementsAre(HasSubstr("--gemm-cache /proc: no file can be made there")),
                          IsEmpty()));
  EXPECT_THAT(problems_of({folder / "no/parent"}),
              ElementsAre(ElementsAre(HasSubstr("cannot be made"))));
}

}  // namespace
}  // namespace trireme::job
