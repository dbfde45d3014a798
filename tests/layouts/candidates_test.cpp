// Layouts that are enumerated are those that train_gpt accepts, and all of them.
#include "runtime/layouts/search/candidates.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/layouts/task.h"

namespace trireme::layouts {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

LayoutList list(const TrainingTask& task, int gpus, int per_node, const std::string& pins = "") {
  return list_layouts(task, {gpus, per_node}, pins.empty() ? LayoutPins{} : parse_pins(pins));
}

/// Options of train_gpt with a layout's words, as its command line reads them.
struct Parsed {
  Options options;
  GptOptions gpt;
  std::vector<std::string> problems;
};

Parsed parse(const TrainingTask& task, const Layout& layout) {
  Parsed parsed;
  CommandLine command("train_gpt", "");
  declare_options(command, parsed.options);
  declare_gpt_options(command, parsed.options, parsed.gpt);
  std::vector<std::string> words = {"train_gpt", "--model", "tiny", "--global-batch-size", "32"};
  for (const std::string& word : task.words_of(layout)) words.push_back(word);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  Problems problems;
  command.parse(static_cast<int>(arguments.size()), arguments.data(), problems);
  derive_defaults(command, parsed.options);
  check_options(command, parsed.options, layout.ranks(), problems);
  check_gpt_options(command, parsed.options, parsed.gpt, problems);
  parsed.problems = problems.all();
  return parsed;
}

TEST(Candidates, AreAcceptedByTheCommandLineOfTrainGptAndMeanWhatTheySay) {
  const auto task = tiny_task();
  const LayoutList found = list(*task, 8, 4);
  ASSERT_GT(found.legal.size(), 100u);
  for (std::size_t i = 0; i < found.legal.size(); i += 7) {
    const Layout& layout = found.legal[i];
    const Parsed parsed = parse(*task, layout);
    EXPECT_THAT(parsed.problems, IsEmpty()) << describe(layout);
    const cost::Candidate candidate = task->candidate(layout);
    const MeshShape mesh(layout.data, layout.pipeline, layout.tensor);
    const TrainingSpec spec = training_spec(parsed.options, mesh);
    EXPECT_EQ(spec.mesh.describe(), candidate.spec.mesh.describe());
    EXPECT_EQ(spec.chunks, candidate.spec.chunks) << describe(layout);
    EXPECT_EQ(spec.schedule, candidate.spec.schedule) << describe(layout);
    EXPECT_EQ(spec.micro_batches(0).count, candidate.spec.micro_batches(0).count)
        << describe(layout);
    EXPECT_EQ(spec.update, candidate.spec.update) << describe(layout);
    EXPECT_EQ(spec.compute, candidate.spec.compute);
    EXPECT_EQ(parsed.gpt.model.recompute, candidate.recompute) << describe(layout);
    EXPECT_EQ(parsed.gpt.model.sequence_parallel, candidate.sequence_parallel) << describe(layout);
    EXPECT_EQ(parsed.gpt.model.lm_head_chunks, candidate.lm_head_chunks) << describe(layout);
  }
}

TEST(Candidates, AreAllThatTheGateAccepts) {
  const auto task = tiny_task();
  const LayoutList found = list(*task, 8, 8);
  const auto has = [&](const Layout& layout) {
    return std::find(found.legal.begin(), found.legal.end(), layout) != found.legal.end();
  };
  for (int tensor = 1; tensor <= 8; ++tensor)
    for (int pipeline = 1; pipeline <= 8; ++pipeline)
      for (Index micro_batch = 1; micro_batch <= 32; ++micro_batch) {
        Layout layout;
        layout.tensor = tensor;
        layout.pipeline = pipeline;
        layout.data = 8 / (tensor * pipeline);
        layout.micro_batch = micro_batch;
        if (layout.ranks() != 8) continue;
        EXPECT_EQ(has(layout), task->problems_of(layout).empty()) << describe(layout);
      }
}

TEST(Candidates, OfEqualLayoutsAreListedOnce) {
  const LayoutList found = list(*tiny_task(), 8, 8);
  for (std::size_t i = 0; i < found.legal.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      ASSERT_FALSE(found.legal[i] == found.legal[j]) << describe(found.legal[i]);
}

TEST(Candidates, KeepTensorGroupsInsideANodeUnlessPinned) {
  const auto task = tiny_task();
  const LayoutList inside = list(*task, 8, 2);
  for (const Layout& layout : inside.legal) EXPECT_LE(layout.tensor, 2);
  const LayoutList across = list(*task, 8, 2, "tp=4");
  ASSERT_FALSE(across.legal.empty());
  for (const Layout& layout : across.legal) EXPECT_EQ(layout.tensor, 4);
}

TEST(Candidates, OfASplitThatIsNotLegalHaveTheReasonOfTheGate) {
  const LayoutList found = list(*tiny_task(), 8, 8);
  const auto eight =
      std::find_if(found.illegal.begin(), found.illegal.end(),
                   [](const IllegalLayout& each) { return each.layout.tensor == 8; });
  ASSERT_NE(eight, found.illegal.end());
  EXPECT_THAT(eight->problem, HasSubstr("--num-attention-heads 4 does not divide by"));
  const LayoutList none = list(*tiny_task(), 8, 8, "tp=3");
  EXPECT_THAT(none.legal, IsEmpty());
  ASSERT_FALSE(none.illegal.empty());
  EXPECT_THAT(none.illegal.front().problem, HasSubstr("does not divide 8 ranks"));
}

TEST(Candidates, KeepWhatIsPinned) {
  const auto task = tiny_task();
  const LayoutList found = list(*task, 8, 8, "pp=2 mb=4 full zero=0 chunks=4");
  ASSERT_FALSE(found.legal.empty());
  for (const Layout& layout : found.legal) {
    EXPECT_EQ(layout.pipeline, 2);
    EXPECT_EQ(layout.micro_batch, 4);
    EXPECT_EQ(layout.recompute, RecomputeGranularity::full);
    EXPECT_FALSE(layout.sharded);
    EXPECT_EQ(layout.head_chunks, 4);
  }
}

TEST(Candidates, OptionsOfTheModelsFileStayAndContradictOtherPins) {
  const auto task = task_of(
      {"--model", "tiny", "--global-batch-size", "32", "--micro-batch-size", "2", "--tp", "2"});
  std::vector<std::string> contradicted;
  const LayoutPins pins = task->pins_with({}, contradicted);
  EXPECT_EQ(pins.tensor, Index{2});
  EXPECT_EQ(pins.micro_batch, Index{2});
  EXPECT_FALSE(pins.pipeline);
  EXPECT_TRUE(contradicted.empty());
  EXPECT_EQ(task->pins_with(parse_pins("tp=4 mb=2"), contradicted).tensor, Index{2});
  EXPECT_EQ(contradicted, std::vector<std::string>{"--tensor-model-parallel-size"});
}

TEST(Candidates, AreTrainedInBf16UnlessTheFileSaysOtherwise) {
  EXPECT_TRUE(tiny_task()->options().bf16);
  const auto f32 = task_of({"--model", "tiny", "--bf16=false"});
  EXPECT_FALSE(f32->options().bf16);
  EXPECT_THAT(f32->words_of(Layout{}), testing::Not(testing::Contains("--bf16")));
}

}  // namespace
}  // namespace trireme::layouts
