// --use-checkpoint-args: which options of a checkpoint's job become those of this one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"
#include "tests/support/recorded_problems.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

/// What a job with this line writes into its checkpoints.
KeyValues saved_by(const std::string& line) {
  const GptCommandLine job(line, 1);
  EXPECT_THAT(job.problems.all(), IsEmpty()) << line;
  return job.command.configuration();
}

/// A command line that has taken the options of a checkpoint.
struct Taken {
  Taken(const std::string& line, const KeyValues& saved) : here(line, 1) {
    changed = here.command.take(saved, "step 3 of run", here.problems);
  }
  GptCommandLine here;
  KeyValues changed;
};

const char* const small_llama =
    "--model llama-1b --num-layers 2 --hidden-size 64 --num-query-groups 4 --vocab-size 256 "
    "--hidden-dropout 0.1 --bf16 --lr 0.5";

TEST(UseCheckpointArgs, TakesTheModelAndItsTypeAndNothingElse) {
  const KeyValues saved = saved_by(small_llama);
  const Taken taken("", saved);
  EXPECT_THAT(taken.here.problems.all(), IsEmpty());
  EXPECT_EQ(taken.here.gpt.model.identity(), GptCommandLine(small_llama, 1).gpt.model.identity());
  EXPECT_EQ(taken.here.gpt.model.seq_length, 8192);
  EXPECT_TRUE(taken.here.options.bf16);
  EXPECT_EQ(taken.here.options.learning_rate.lr, Options().learning_rate.lr);
  EXPECT_THAT(taken.changed, Contains(Pair("--model", "llama-1b")));
  EXPECT_THAT(taken.changed, Contains(Pair("--bf16", "true")));
  EXPECT_THAT(taken.changed, Not(Contains(Pair("--num-attention-heads", "4"))));
  EXPECT_THAT(taken.here.command.effective(), HasSubstr("Model: model llama-1b+, num-layers 2+"));
  EXPECT_FALSE(taken.here.command.given("--num-layers"));
}

TEST(UseCheckpointArgs, OptionsThatLeaveTheModelAsItIsWinOverTheCheckpoint) {
  const Taken taken(
      "--seq-length 32 --hidden-dropout 0.25 --bf16=false --lm-head-chunks 2 --num-layers 2",
      saved_by(small_llama));
  EXPECT_THAT(taken.here.problems.all(), IsEmpty());
  EXPECT_EQ(taken.here.gpt.model.seq_length, 32);
  EXPECT_EQ(taken.here.gpt.model.hidden_dropout, 0.25F);
  EXPECT_EQ(taken.here.gpt.model.lm_head_chunks, 2);  // the preset's own was taken before
  EXPECT_EQ(taken.here.gpt.model.hidden_size, 64);
  EXPECT_FALSE(taken.here.options.bf16);
}

TEST(UseCheckpointArgs, AnotherModelIsRefusedWithBothValues) {
  const Taken taken("--num-layers 3 --hidden-size 64", saved_by(small_llama));
  EXPECT_THAT(taken.here.problems.all(),
              ElementsAre("--num-layers is 3 here and 2 in step 3 of run, whose model "
                          "--use-checkpoint-args takes; leave one of the two options out"));
}

TEST(UseCheckpointArgs, ACheckpointThatDoesNotSayItsOptionsIsRefused) {
  EXPECT_THAT(Taken("", {{"--lr", "0.5"}, {"--num-layers", ""}}).here.problems.all(),
              ElementsAre("--use-checkpoint-args: step 3 of run does not say with which options "
                          "its model was made; give them here instead"));
}

TEST(UseCheckpointArgs, AValueThatThisVersionDoesNotKnowIsNamedWithItsPlace) {
  EXPECT_THAT(Taken("", {{"--num-layers", "2"}, {"--activation", "sine"}}).here.problems.all(),
              ElementsAre(HasSubstr("--activation sine (of step 3 of run): expected one of")));
}

TEST(UseCheckpointArgs, HasNoMeaningInAProgramWhoseModelHasNoOptions) {
  Options options;
  CommandLine command("mlp", "");
  declare_options(command, options);
  test::RecordedProblems problems;
  command.take({{"--lr", "0.5"}}, "step 3 of run", problems);
  EXPECT_THAT(problems.all(), ElementsAre(HasSubstr("no option of this program describes")));
}

TEST(JobsThatOnlyGenerate, TrainNothingUnlessTheySaySo) {
  const auto train_iters = [](const char* line) {
    return GptCommandLine(line, 1).options.train_iters;
  };
  EXPECT_EQ(train_iters("--load /tmp --generate 5"), 0);
  EXPECT_EQ(train_iters("--load /tmp --generate 5 --train-iters 7"), 7);
  EXPECT_EQ(train_iters("--load /tmp --generate 5 --data-path corpus"), 100);
  EXPECT_EQ(train_iters("--generate 5"), 100);
  EXPECT_EQ(train_iters("--load /tmp"), 100);
}

TEST(JobsThatOnlyGenerate, NeedNoDataAndNoneOfTrainingsLimits) {
  GptCommandLine line("--load /tmp --generate 5 --lr-warmup-iters 500", 1);
  const GptData data = open_gpt_data(line.options, line.gpt, line.problems);
  EXPECT_THAT(line.problems.all(), IsEmpty());
  EXPECT_EQ(data.train, nullptr);
  GptCommandLine saving("--load /tmp --train-iters 0 --save /tmp/new", 1);
  open_gpt_data(saving.options, saving.gpt, saving.problems);
  EXPECT_THAT(saving.problems.all(), ElementsAre(HasSubstr("--data-path is missing")));
}

}  // namespace
}  // namespace trireme
