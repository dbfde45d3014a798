// --plan auto: which options it chooses, which it keeps, and what it refuses.
#include "trireme/train/layout_choice.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"

#include "runtime/layouts/search/answer.h"
#include "tests/support/as_one_line.h"
#include "tests/support/cpu_profile.h"
#include "tests/support/recorded_problems.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/// What choose_layout() says of a job.
struct Chosen {
  std::map<std::string, std::string> values;
  LayoutChoice choice;
  std::vector<std::string> problems;

  std::string layout() const {
    std::string text;
    for (const char* option : {"--tensor-model-parallel-size", "--pipeline-model-parallel-size",
                               "--micro-batch-size", "--schedule"})
      text += values.at(option) + ' ';
    return text;
  }
};

class ChosenLayout : public testing::Test {
 protected:
  const ScratchDirectory folder_;
  const std::string profile_ = test::write_cpu_profile(folder_ / "cpu.json");
  const std::string job_ = "--model tiny --global-batch-size 16 --plan auto --plan-profile ",
                    model_ = job_ + profile_ + ' ';

  static Chosen choose(const std::string& line, const RankCounts& counts = {2, 2}) {
    Options options;
    GptOptions gpt;
    CommandLine command("train_gpt", "");
    declare_options(command, options);
    declare_gpt_options(command, options, gpt);
    std::vector<std::string> words{"train_gpt"};
    std::istringstream in(line);
    for (std::string word; in >> word;) words.push_back(word);
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    test::RecordedProblems problems;
    command.parse(static_cast<int>(argv.size()), argv.data(), problems);
    settle_gpt_options(command, options, gpt);
    Chosen chosen;
    const KeyValues values = choose_layout(command, options, gpt, counts, chosen.choice, problems);
    chosen.values = {values.begin(), values.end()};
    chosen.problems = problems.all();
    return chosen;
  }

  /// A checkpoint of so many ranks whose job had these options of a layout.
  std::string checkpoint(int ranks, const KeyValues& layout) const {
    std::string root = folder_ / str("run", ranks);
    Manifest manifest = test::write_toy(root, 7, {}, {test::ToyLayout::Cut::rows, ranks});
    manifest.options = layout;
    commit_step(root, manifest);
    return root;
  }
  static KeyValues pipeline_of_two() {
    return {{"--tensor-model-parallel-size", "1"},
            {"--pipeline-model-parallel-size", "2"},
            {"--num-virtual-stages-per-pipeline-rank", "1"},
            {"--schedule", "gpipe"},
            {"--micro-batch-size", "1"},
            {"--recompute-granularity", "full"},
            {"--sequence-parallel", "false"},
            {"--use-distributed-optimizer", "false"},
            {"--lm-head-chunks", "1"}};
  }
};

TEST_F(ChosenLayout, IsTheFirstThatTheSearchFinds) {
  const Chosen chosen = choose(model_);
  ASSERT_THAT(chosen.problems, IsEmpty());
  test::RecordedProblems problems;
  const layouts::TrainingTask task({"--model", "tiny", "--global-batch-size", "16"}, problems,
                                   false);
  layouts::Question question;
  question.cluster = layouts::read_cluster("2x" + profile_);
  layouts::GpuGroup& group = question.cluster.groups.front();
  group.profile.device = cpu_traits();
  const layouts::Answer found = layouts::answer(task, question);
  const layouts::Layout& best = found.chosen().layout;
  EXPECT_EQ(chosen.layout(), str(best.tensor, ' ', best.pipeline, ' ', best.micro_batch, ' ',
                                 name(best.schedule), ' '));
  EXPECT_EQ(chosen.values.at("--device"), "cpu");
  EXPECT_EQ(chosen.choice.predicted.seconds, found.chosen().time.total);
  EXPECT_EQ(chosen.choice.predicted.bytes, found.chosen().bytes);
  EXPECT_THAT(chosen.choice.report, HasSubstr("batch 16 | 2 CPU of tests of 4.00 GiB, 1 node"));
  EXPECT_THAT(chosen.choice.report, HasSubstr("\n 1 > tp "));
  EXPECT_THAT(chosen.choice.report, HasSubstr("doubtful: "));  // it is of another CPU
  EXPECT_THAT(chosen.choice.report, Not(HasSubstr("mpirun")));
}

TEST_F(ChosenLayout, KeepsTheOptionsThatAreGiven) {
  const Chosen chosen = choose(model_ + "--tp 2 --recompute-granularity full --bf16");
  ASSERT_THAT(chosen.problems, IsEmpty());
  EXPECT_EQ(chosen.values.at("--tensor-model-parallel-size"), "2");
  EXPECT_EQ(chosen.values.at("--recompute-granularity"), "full");
  EXPECT_THAT(chosen.choice.report, HasSubstr(", bf16, batch 16"));
  const Chosen shares = choose(model_ + "--tp 1 --pp 1 --data-parallel-shares 3,1");
  EXPECT_THAT(shares.problems, IsEmpty());
  EXPECT_EQ(shares.values.at("--pipeline-model-parallel-size"), "1");
}

TEST_F(ChosenLayout, IsNoneWithoutAuto) {
  const Chosen chosen = choose("--model tiny --global-batch-size 16");
  EXPECT_THAT(chosen.values, IsEmpty());
  EXPECT_THAT(chosen.problems, IsEmpty());
  EXPECT_EQ(chosen.choice.report, "");
}

TEST_F(ChosenLayout, OfAGpuByItsNameNeedsNoGpuHere) {
  const Chosen chosen = choose(job_ + "H100-80", {16, 0});
  ASSERT_THAT(chosen.problems, IsEmpty());
  EXPECT_EQ(chosen.values.at("--device"), "cuda");
  EXPECT_THAT(chosen.choice.report, HasSubstr("| 16 H100-SXM of 79.10 GiB, 2 nodes"));
}

TEST_F(ChosenLayout, HasTheLinksOfAClusterAndTheNodesOfTheJob) {
  const auto of = [&](const std::string& groups, const RankCounts& counts) {
    const std::string file = folder_ / "cluster.json";
    std::ofstream(file) << R"({"groups": [)" << groups << "]}";
    return choose(job_ + file, counts);
  };
  const std::string group =
      R"({"gpu": "H100-80", "nodes": 2, "per_node": 8, "network_gbit_s": 100})";
  EXPECT_THAT(of(group, {16, 4}).choice.report,
              HasSubstr("| 16 H100-SXM of 79.10 GiB, 4 nodes, 100 Gb/s a GPU"));
  EXPECT_THAT(of(group, {12, 0}).choice.report,
              HasSubstr("| 12 H100-SXM of 79.10 GiB, 2 nodes, 100 Gb/s a GPU"));
  EXPECT_THAT(of(group, {16, 16}).problems,
              ElementsAre(HasSubstr("has nodes of \"per_node\" 8, and here are 16 ranks on a n")));
  EXPECT_THAT(of(group + R"(, {"gpu": "4090", "nodes": 1, "per_node": 8})", {16, 8}).problems,
              ElementsAre(HasSubstr("has 2 groups of nodes, and --plan auto plans for one")));
}

TEST_F(ChosenLayout, OfRanksThatDoNotRunYetHasTheNodesOfTheCalibration) {
  EXPECT_THAT(as_one_line(choose(model_, {4, 0}).choice.report),
              HasSubstr("| 4 CPU of tests of 4.00 GiB, 2 nodes, 400 Gb/s a rank |"));
  EXPECT_THAT(as_one_line(choose(model_, {4, 4}).choice.report),
              HasSubstr("| 4 CPU of tests of 4.00 GiB, 1 n"));
}

TEST_F(ChosenLayout, RefusesWhatItCannotPlanByOneLineEach) {
  const auto of = [&](const std::string& line, const RankCounts& counts = {2, 2}) {
    const Chosen chosen = choose(line, counts);
    EXPECT_THAT(chosen.values, IsEmpty()) << line;
    for (const std::string& problem : chosen.problems)
      EXPECT_THAT(problem, Not(HasSubstr("\n"))) << line;
    return chosen.problems;
  };
  const std::string small = test::write_cpu_profile(folder_ / "small.json", 1 << 20);
  EXPECT_THAT(of("--plan auto --device cpu"),
              ElementsAre(HasSubstr("--plan auto on CPUs needs --plan-profile FILE")));
  EXPECT_THAT(of(model_ + "--train-iters 0"), ElementsAre(HasSubstr("this job trains nothing")));
  EXPECT_THAT(of(model_ + "--freeze embedding"),
              ElementsAre(HasSubstr("--freeze: layouts are searched for models of which all")));
  EXPECT_THAT(of(model_, {6, 4, 2}), ElementsAre(HasSubstr("the 6 ranks here are 2 to 4 on a ")));
  EXPECT_THAT(of(model_ + "--device cuda"),
              ElementsAre(HasSubstr("cpu.json is of a CPU and contradicts --device cuda")));
  EXPECT_THAT(of("--plan auto --device cpu --plan-profile H100"),
              ElementsAre("--plan-profile H100 is of a GPU and contradicts --device cpu"));
  EXPECT_THAT(of("--plan auto --plan-profile H100-80 --ranks-per-gpu 2 "
                 "--serialize-communication"),
              ElementsAre(HasSubstr("a GPU for each rank, and --ranks-per-gpu 2 shares it")));
  EXPECT_THAT(of("--plan auto --plan-profile H1000"),
              ElementsAre(HasSubstr("--plan-profile H1000: the GPU 'H1000' is not known")));
  const std::string broken = folder_ / "broken.json";
  std::ofstream(broken) << R"({"format": 1})";
  EXPECT_THAT(of("--plan auto --plan-profile " + broken),
              ElementsAre(AllOf(StartsWith("--plan-profile " + broken + ": "),
                                Not(HasSubstr(": " + broken)))));
  EXPECT_THAT(of(model_ + "--tp 3"), ElementsAre(HasSubstr("--plan auto: no layout of 0.8 M "
                                                           "parameters on 2 CPU of tests")));
  EXPECT_THAT(
      of(job_ + small),
      ElementsAre(AllOf(HasSubstr("--plan auto: none of "), HasSubstr(" layouts fits 2 CPU"),
                        ContainsRegex(": least [0-9.]+ MiB a rank \\("))));
}

TEST_F(ChosenLayout, IsThatOfTheCheckpointOfAsManyRanks) {
  const std::string load = model_ + "--load " + checkpoint(2, pipeline_of_two());
  const Chosen kept = choose(load);
  ASSERT_THAT(kept.problems, IsEmpty());
  EXPECT_EQ(kept.layout(), "1 2 1 gpipe ");
  EXPECT_EQ(kept.values.at("--recompute-granularity"), "full");
  EXPECT_THAT(kept.choice.report, HasSubstr("the layout of step 7 of "));
  EXPECT_GT(kept.choice.predicted.seconds, 0);
  // A new run, another step: the fastest one is sought.
  for (const char* more : {" --finetune", " --ckpt-step 6"}) {
    const Chosen anew = choose(load + more);
    EXPECT_THAT(anew.choice.report, Not(HasSubstr("the layout of"))) << more;
    EXPECT_NE(anew.layout(), kept.layout()) << more;
  }
}

TEST_F(ChosenLayout, IsSoughtWhereThatOfTheCheckpointCannotBeKeptAndSaysWhy) {
  const auto report = [&](const std::string& options, const RankCounts& counts = {2, 2}) {
    const Chosen anew = choose(options, counts);
    EXPECT_THAT(anew.problems, IsEmpty()) << options;
    EXPECT_THAT(anew.choice.report, Not(HasSubstr("is kept"))) << options;
    EXPECT_THAT(anew.choice.report, HasSubstr("\n 1 > tp ")) << options;
    return anew.choice.report;
  };
  const std::string run = " --load " + checkpoint(2, pipeline_of_two()), load = model_ + run;
  EXPECT_THAT(report(load + " --pp 1"),
              HasSubstr("run2 is not kept: another --pipeline-model-parallel-size is given\n"));
  EXPECT_THAT(report(load, {4, 4}), HasSubstr("is not kept: 2 ranks wrote it, and here are 4\n"));
  EXPECT_THAT(report(load + " --num-layers 1"), HasSubstr("is not kept: "));
  // A device with less memory than it needs.
  const std::string small =
      test::write_cpu_profile(folder_ / "small.json", choose(load).choice.predicted.bytes);
  EXPECT_THAT(report(job_ + small + run), HasSubstr("is not kept: a rank would need "));
  // The batch no longer has as many micro-batches.
  KeyValues layout = pipeline_of_two();
  layout[4].second = "5";
  EXPECT_THAT(report(model_ + "--load " + checkpoint(2, layout)),
              HasSubstr("run2 is not kept: --global-batch-size 16 "));
  EXPECT_THAT(report(model_ + "--load " + checkpoint(2, {{"--lr", "0.1"}})),
              HasSubstr("is not kept: it does not say its --"));
}

}  // namespace
}  // namespace trireme
