// What the supervisor reads in the words of PROGRAM, and what it changes in them.
#include "launch/supervisor/decide/command_words.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Words words_for(const Words& program, const AttemptPlan& plan) {
  return words_of(make_job(program, ""), plan);
}

TEST(Words, GiveTheValueOfTheLastOption) {
  EXPECT_EQ(option_of({"p", "--save", "a", "--save=b"}, "--save"), "b");
  EXPECT_EQ(option_of({"p", "--save-interval", "3"}, "--save"), "");
  EXPECT_EQ(option_of({"p", "--save"}, "--save"), "");
}

TEST(Words, LoadWhereTheySave) {
  EXPECT_THAT(words_for({"p", "--save", "r"}, {}), ElementsAre("p", "--save", "r", "--load", "r"));
}

TEST(Words, MayBeInAFileOfOptions) {
  const ScratchDirectory folder;
  const std::string file = folder / "job.toml";
  std::ofstream(file) << "[checkpoints]\nsave = \"r\"\nmetrics = \"m.jsonl\"\nlr = 3e-3\n";
  const Job job = make_job({"p", "--config", file}, "");
  EXPECT_EQ(job.run, "r");
  EXPECT_EQ(job.metrics, "m.jsonl");
  EXPECT_TRUE(job.watched);
  EXPECT_EQ(make_job({"p", "--config", file, "--save", "other"}, "").run, "other");
  EXPECT_THAT(message_of([&] {
                make_job({"p", "--config", file}, "elsewhere");
              }),
              HasSubstr("--run-dir elsewhere is not the --save of the program, r"));

  std::ofstream(file, std::ios::app) << "load = \"base\"\n";
  EXPECT_THAT(words_for({"p", "--config", file}, {}),
              ElementsAre("p", "--config", file, "--save", "r"));
  EXPECT_THAT(words_for({"p", "--config", file}, {.resumes = true}),
              ElementsAre("p", "--config", file, "--save", "r", "--load", "r"));
}

TEST(Words, KeepWhatTheUserLoadsUntilTheRunHasSaved) {
  const Words given = {"p", "--save", "r", "--load", "other", "--finetune", "--lr", "1"};
  EXPECT_EQ(words_for(given, {}), given);
  const Words expected = {"p", "--save", "r", "--lr", "1", "--load", "r"};
  EXPECT_EQ(words_for(given, {.resumes = true}), expected);
  EXPECT_EQ(words_for(given, {.has_saved = true}), expected);
}

TEST(Words, GoBackToAStepOnceOnly) {
  const Words given = {"p", "--save=r", "--load=r", "--ckpt-step=7"};
  EXPECT_EQ(words_for(given, {.has_saved = true}), given);  // asked for by the user, again
  EXPECT_THAT(words_for(given, {.resumes = true}), ElementsAre("p", "--save=r", "--load", "r"));
  EXPECT_THAT(words_for(given, {.step = 5}),
              ElementsAre("p", "--save=r", "--load", "r", "--ckpt-step", "5"));
}

TEST(Words, OfAnotherLayoutReplaceTheSameOptionsByWhateverName) {
  const Words given = {"p", "--save", "r", "--tensor-model-parallel-size", "8", "--pp=2", "--bf16"};
  EXPECT_THAT(words_for(given, {.options = {"--tp", "4", "--pp", "1"}}),
              ElementsAre("p", "--save", "r", "--bf16", "--tp", "4", "--pp", "1", "--load", "r"));
  EXPECT_THAT(words_for({"p", "--save", "r", "--bf16", "--tp", "2"},
                        {.options = {"--bf16", "--sequence-parallel", "--pp=4"}}),
              ElementsAre("p", "--save", "r", "--tp", "2", "--bf16", "--sequence-parallel",
                          "--pp=4", "--load", "r"));
  EXPECT_EQ(words_for(given, {}).size(), given.size() + 2);
}

TEST(Words, OfAnotherLayoutMayNotSetWhatIsThatOfTheRun) {
  check_layout_options({"--tp", "4", "--pp=1", "--micro-batch-size", "2", "--save-buffer=1"});
  EXPECT_EQ(message_of([] {
              check_layout_options({"--tp", "4", "--save-interval", "auto"});
            }),
            "--also-layout \"--tp 4 --save-interval auto\": --save-interval is the same on every "
            "layout; give it to PROGRAM itself, after --");
  EXPECT_THAT(message_of([] { check_layout_options({"--save=r"}); }),
              HasSubstr("\"--save=r\": --save is the same on every layout"));
}

TEST(Words, SaveAsChosenWhereTheIntervalIsAuto) {
  const Words given = {"p", "--save", "r", "--load", "r", "--save-interval", "auto"};
  const auto with = [&](const std::string& name, const std::string& value) {
    return testing::ElementsAreArray(with_options_of(given, {name, value}));
  };
  EXPECT_THAT(words_for(given, {}), with("--save-interval-seconds", "600"));
  EXPECT_THAT(words_for(given, {.saves = {.seconds = 75}}), with("--save-interval-seconds", "75"));
  EXPECT_THAT(words_for(given, {.saves = {.steps = 14}}), with("--save-interval", "14"));

  const Words by_time = with_options_of(given, {"--save-interval-seconds", "9"});
  EXPECT_EQ(words_for(by_time, {.saves = {.seconds = 9}}), by_time);
  EXPECT_EQ(words_for(by_time, {.saves = {.steps = 14}}),
            with_options_of(by_time, {"--save-interval", "14"}));
  const Words fixed = {"p", "--save", "r", "--load", "r", "--save-interval", "7"};
  EXPECT_EQ(words_for(fixed, {.saves = {.steps = 14}}), fixed);
}

TEST(Job, KnowsWhetherItSavesBeforeItsEnd) {
  const auto saves_between = [](Words options) {
    options.insert(options.begin(), {"p", "--save", "r"});
    return make_job(options, "").saves_between;
  };
  EXPECT_FALSE(saves_between({}));
  EXPECT_FALSE(saves_between({"--save-interval", "0"}));
  EXPECT_FALSE(saves_between({"--save-memory-interval", "9"}));  // memory is lost with its host
  EXPECT_TRUE(saves_between({"--save-interval", "9"}));
  EXPECT_TRUE(saves_between({"--save-interval=auto"}));
  EXPECT_TRUE(saves_between({"--save-interval-seconds", "9"}));

  const ScratchDirectory folder;
  const std::string file = folder / "job.toml";
  std::ofstream(file) << "save-interval = 9\n";
  EXPECT_TRUE(saves_between({"--config", file}));
}

TEST(Words, SaveAsChosenWhereAFileOfOptionsSaysAuto) {
  const ScratchDirectory folder;
  const std::string file = folder / "job.toml";
  std::ofstream(file) << "save = \"r\"\nload = \"r\"\nsave-interval = \"auto\"\n";
  EXPECT_THAT(words_for({"p", "--config", file}, {.saves = {.steps = 14}}),
              ElementsAre("p", "--config", file, "--save", "r", "--save-interval", "14"));
  EXPECT_FALSE(make_job({"p", "--config", file, "--save-interval", "3"}, "").auto_saves);

  std::ofstream(file, std::ios::app) << "keep-last = 2\nsave-retain-interval = 100\n";
  EXPECT_THAT(message_of([&] {
                make_job({"p", "--config", file}, "");
              }),
              HasSubstr("--save-retain-interval 100 keeps multiples of a step, which "
                        "--save-interval auto does not make sure to save"));
}

TEST(Job, LiesWhereTheProgramSaves) {
  const Job job = make_job({"bin/train_gpt", "--save", "r"}, "");
  EXPECT_EQ(job.name(), "train_gpt");
  EXPECT_EQ(job.run, "r");
  EXPECT_EQ(job.metrics, "r/metrics.jsonl");
  EXPECT_TRUE(job.watched);
  EXPECT_EQ(make_job({"p", "--save", "r", "--metrics", "m"}, "").metrics, "m");
}

TEST(Job, WithoutASaveNeedsADirectory) {
  EXPECT_FALSE(make_job({"p"}, "r").watched);
  EXPECT_TRUE(make_job({"p", "--config", "c.toml"}, "r").watched);
  EXPECT_THAT(words_of(make_job({"p", "--config", "c.toml"}, "r"), {}),
              ElementsAre("p", "--config", "c.toml", "--save", "r", "--load", "r"));
  EXPECT_THAT(trireme::message_of([] { make_job({"p"}, ""); }), HasSubstr("--run-dir DIR"));
  EXPECT_THAT(trireme::message_of([] {
                make_job({"p", "--save", "a"}, "b");
              }),
              HasSubstr("--run-dir b is not the --save of the program, a"));
}

TEST(Durations, HaveUnits) {
  EXPECT_EQ(parse_duration("90"), 90);
  EXPECT_EQ(parse_duration("1.5m"), 90);
  EXPECT_EQ(parse_duration("2h"), 7200);
  EXPECT_EQ(parse_duration("1d"), 86400);
  for (const char* text : {"", "h", "-1", "0", "3w", "1e99", "nan", "5 m"})
    EXPECT_THROW(parse_duration(text), Error) << text;
}

TEST(Mpirun, GetsPrivateDirectoriesOnOneMachine) {
  const Launch launch{{"mpirun", "--mca", "btl", "self,tcp"}, "/tmp/a", "/dev/shm/a", "", {"X"}};
  const Words words = mpirun_words(launch, {.ranks = 4}, {"p", "-v"});
  const std::string line = [&] {
    std::string all;
    for (const std::string& word : words) all += word + ' ';
    return all;
  }();
  EXPECT_THAT(line, HasSubstr("--mca orte_tmpdir_base /tmp/a "));
  EXPECT_THAT(line, HasSubstr("--mca btl_vader_backing_directory /dev/shm/a "));
  EXPECT_THAT(line, HasSubstr("--mca odls_base_sigkill_timeout 0 "));
  EXPECT_THAT(line, Not(HasSubstr("self,vader,tcp")));  // the user has set it
  EXPECT_TRUE(line.ends_with("-np 4 p -v ")) << line;
}

TEST(Mpirun, StartsWithoutLookingForDevicesOnOneMachineOnly) {
  ::unsetenv("HWLOC_COMPONENTS");
  ::unsetenv("HWLOC_PLUGINS_PATH");
  EXPECT_THAT(quick_start_variables({.ranks = 4}),
              ElementsAre("HWLOC_COMPONENTS=-linuxio,-pci", "HWLOC_PLUGINS_PATH=/dev/null"));
  EXPECT_THAT(quick_start_variables({.ranks = 4, .hosts = {{"n0", 8}}}), ElementsAre());
  ::setenv("HWLOC_COMPONENTS", "gl", 1);
  EXPECT_THAT(quick_start_variables({.ranks = 4}), ElementsAre());
  ::unsetenv("HWLOC_COMPONENTS");
}

TEST(Mpirun, GetsHostsWithTheirRanks) {
  const Launch launch{{"mpirun"}, "/tmp/a", "/dev/shm/a", "rsh.sh", {"X"}};
  const Words words = mpirun_words(launch, {.ranks = 4, .hosts = {{"n0", 8}, {"n1", 8}}}, {"p"});
  EXPECT_THAT(words, Contains("n0:2,n1:2"));
  const Words fewer =
      mpirun_words(launch, {.ranks = 3, .hosts = {{"n0", 8}, {"n1", 8}}, .slots = 2}, {"p"});
  EXPECT_THAT(fewer, Contains("n0:2,n1:2"));  // the last one has a slot left
  EXPECT_THAT(fewer, Contains("3"));
  EXPECT_THAT(words, Contains("rsh.sh"));
  EXPECT_THAT(words, Contains("X"));
  EXPECT_THAT(words, Not(Contains("btl_vader_backing_directory")));  // of other hosts not made
}

}  // namespace
}  // namespace trireme::supervisor::test
