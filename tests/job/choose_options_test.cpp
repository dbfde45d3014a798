// Application::choose: when it runs, and what becomes of what it returns.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/job/program_options.h"
#include "tests/support/recorded_problems.h"

namespace trireme::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The options of a program that chooses a tensor size by the number of its ranks.
struct Read {
  explicit Read(std::vector<const char*> words, Index ranks, bool finds = true) {
    words.insert(words.begin(), "program");
    application.choose = [&, finds](const CommandLine&, const Options&, const RankCounts& counts,
                                    Problems& found) -> KeyValues {
      ++calls;
      if (!finds) found.add("nothing fits");
      if (!finds) return {};
      return {{"--tensor-model-parallel-size", str(counts.ranks)}, {"--lr", "0.5"}};
    };
    application.check = [&](const CommandLine&, const Options&, Index, Problems&) { ++checks; };
    const std::unique_ptr<Mesh> mesh = make_self_mesh();
    read_options(static_cast<int>(words.size()), const_cast<char**>(words.data()), application,
                 command, options, *mesh, {ranks, 2}, facts, problems);
  }
  int calls = 0, checks = 0;
  Application application;
  Options options;
  CommandLine command{"program", ""};
  StartFacts facts;
  test::RecordedProblems problems;
};

TEST(ChosenOptions, AreTakenButForThoseThatAreGiven) {
  const Read read({"--lr", "0.25"}, 4);
  EXPECT_THAT(read.problems.all(), IsEmpty());
  EXPECT_EQ(read.options.tensor_size, 4);
  EXPECT_EQ(read.options.learning_rate.lr, 0.25);
  EXPECT_TRUE(read.facts.chosen);
  EXPECT_EQ(read.checks, 1);
}

TEST(ChosenOptions, AreCheckedAsAllOthers) {
  const Read read({"--pp", "2"}, 4);  // tensor 4 x pipeline 2 on 4 ranks
  EXPECT_THAT(read.problems.all(), ElementsAre(HasSubstr("--tensor-model-parallel-size 4")));
}

TEST(ChosenOptions, ThatCannotBeChosenAreTheOnlyProblem) {
  const Read read({"--global-batch-size", "3"}, 4, false);  // which 4 data ranks do not divide
  EXPECT_THAT(read.problems.all(), ElementsAre("nothing fits"));
  EXPECT_EQ(read.checks, 0);
  EXPECT_FALSE(read.facts.chosen);
}

TEST(ChosenOptions, AreSoughtByTheRanksOfAllNodes) {
  run_on_threads(MeshShape(3, 1, 1), [](Mesh& mesh) {
    const Index here = mesh.rank() < 2 ? 2 : 1;  // each rank knows its own node
    RankCounts seen;
    Application application;
    application.choose = [&](const CommandLine&, const Options&, const RankCounts& counts,
                             Problems&) -> KeyValues {
      seen = counts;
      return {};
    };
    Options options;
    CommandLine command{"program", ""};
    StartFacts facts;
    test::RecordedProblems problems;
    std::string name = "program";
    std::array<char*, 2> words = {name.data(), nullptr};
    read_options(1, words.data(), application, command, options, mesh, {3, here}, facts, problems);
    if (mesh.rank() != 0) return;
    EXPECT_EQ(seen.ranks, 3);
    EXPECT_EQ(seen.per_node, 2);
    EXPECT_EQ(seen.fewest_per_node, 1);
  });
}

TEST(ChosenOptions, AreNotSoughtForHelp) { EXPECT_EQ(Read({"--help"}, 4).calls, 0); }

}  // namespace
}  // namespace trireme::job
