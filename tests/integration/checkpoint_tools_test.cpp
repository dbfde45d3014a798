// trireme checkpoint: what a person or a script sees of good and damaged checkpoints, and the exit
// codes.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/store/inspect/inspect.h"
#include "runtime/store/lease/lease.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Cut = ToyLayout::Cut;

class CheckpointTools : public testing::Test {
 protected:
  std::string root() const { return folder_ / "run"; }
  std::string step(Index number) const { return root() + "/" + step_name(number); }
  Outcome run(const std::string& words) const {
    return run_shell(TRIREME_BIN_DIR "/trireme checkpoint " + words, folder_ / "log");
  }
  json run_json(const std::string& words, int exit_code = 0) const {
    const Outcome outcome = run(words + " --json");
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
    return json::parse(outcome.output);
  }
  ScratchDirectory folder_;
};

TEST_F(CheckpointTools, ListNamesStepsAndLeftoversAndTheWriter) {
  commit_toy(root(), 40, {}, {Cut::rows, 3});
  commit_toy(root(), 120, {});
  fs::create_directory(root() + "/step-000160.tmp-dead");
  {
    const Lease lease(root(), "run-of-the-test");
    const json listed = run_json("list " + root());
    EXPECT_EQ(listed["steps"][0]["step"], 120);
    EXPECT_EQ(listed["steps"][1]["shards"], 3);
    EXPECT_EQ(listed["unfinished"], json({"step-000160.tmp-dead"}));
    EXPECT_EQ(listed["lease"]["run"], "run-of-the-test");
    EXPECT_EQ(listed["lease"]["pid"], ::getpid());
    EXPECT_EQ(listed["lease"]["gone"], false);
  }
  EXPECT_THAT(run("list " + root()).output,
              AllOf(HasSubstr("2 committed steps"), HasSubstr("no job writes here")));
  fs::remove(step(120) + "/shard-00000.h5");
  const Outcome damaged = run("list " + root());
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.output, HasSubstr("bad: " + step(120) + "/shard-00000.h5"));
}

TEST_F(CheckpointTools, ShowTakesTheNewestStepOrTheOneNamed) {
  commit_toy(root(), 40, {}, {Cut::rows, 3});
  commit_toy(root(), 120, {});
  EXPECT_EQ(run_json("show " + root())["step"], 120);
  EXPECT_EQ(run_json("show " + root() + " --step 40")["layout"], "3 ranks");
  const json shown = run_json("show " + step(120));
  EXPECT_EQ(shown["tensors"][2]["name"], "parameters/wte");
  EXPECT_EQ(shown["tensors"][2]["shape"], json({37, 6}));
  EXPECT_EQ(shown["totals"]["parameters"]["bytes"], 916);
  EXPECT_EQ(shown["options"]["--lr"], "0.1");
  EXPECT_EQ(shown["files"].back()["name"], "checkpoint.h5");
  const Outcome missing = run("show " + root() + " --step 41");
  EXPECT_EQ(missing.exit_code, 64);
  EXPECT_THAT(missing.output, HasSubstr("holds no step 41; it holds 120, 40"));
}

TEST_F(CheckpointTools, VerifyNamesTheFileAndTheTensorOfAnyDamage) {
  commit_toy(root(), 40, {}, {Cut::rows, 3});
  commit_toy(root(), 120, {}, {Cut::columns, 2});
  const Outcome good = run("verify " + root());
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.output, "step 120: intact\nstep 40: intact\n");

  const Manifest manifest = open_step(step(120)).manifest;
  flip_bit(step(120) + "/shard-00001.h5", manifest.find("parameters/wte")->pieces[1].offset);
  const Outcome damaged = run("verify " + root() + " --threads 1");
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.output, AllOf(HasSubstr("step 120: shard-00001.h5: "),
                                    HasSubstr("parameters/wte"), HasSubstr("step 40: intact\n")));
  EXPECT_EQ(run("verify " + root() + " --step 40").exit_code, 0);
  const json verified = run_json("verify " + root(), 1);
  EXPECT_EQ(verified["holds"], false);
  EXPECT_EQ(verified["steps"][0]["problems"].size(), 1U);
}

// Damage of every kind of file, each found by one line.
TEST_F(CheckpointTools, VerifyFindsDamageOfEveryFile) {
  const auto damaged = [&](const std::function<void(const std::string&)>& damage) {
    fs::remove_all(root());
    commit_toy(root(), 120, {}, {Cut::rows, 2});
    damage(step(120));
    const Outcome outcome = run("verify " + step(120));
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(count(outcome.output, "\n"), 1) << outcome.output;
    return outcome.output;
  };
  const auto flip = [](const char* file, Index at) {
    return [=](const std::string& path) { flip_bit(path + "/" + file, at); };
  };
  EXPECT_THAT(damaged(flip("shard-00000.h5", 0)), HasSubstr("shard-00000.h5: "));
  EXPECT_THAT(damaged(flip("checkpoint.h5", 9)), HasSubstr("checkpoint.h5: "));
  EXPECT_THAT(damaged(flip("manifest.json", 9)), HasSubstr("manifest.json: "));
  EXPECT_THAT(damaged([](const std::string& path) { fs::remove(path + "/manifest.json"); }),
              HasSubstr("manifest.json"));
  EXPECT_THAT(damaged([](const std::string& path) {
                std::ofstream(path + "/shard-00001.h5", std::ios::app) << "x";
              }),
              HasSubstr("shard-00001.h5: "));
  EXPECT_THAT(damaged([](const std::string& path) { std::ofstream(path + "/notes") << "x"; }),
              HasSubstr("notes: "));
  EXPECT_THAT(damaged([](const std::string& path) {
                fs::copy_file(path + "/shard-00000.h5", path + "/shard-00001.h5",
                              fs::copy_options::overwrite_existing);
              }),
              HasSubstr("shard-00001.h5: "));
}

TEST_F(CheckpointTools, DiffComparesStepsOfAnyLayout) {
  ToyState later;
  later["parameters/wte"].at<float>(13 * 6 + 4) += 0.25F;
  commit_toy(root(), 40, {}, {Cut::rows, 3});
  commit_toy(root(), 80, {}, {Cut::columns, 2});
  commit_toy(root(), 120, later);
  const Outcome equal = run("diff " + root() + ":40 " + step(80));
  EXPECT_EQ(equal.exit_code, 0) << equal.output;
  EXPECT_THAT(equal.output, HasSubstr("equal: 4 tensors, 1.8 KiB compared"));

  const Outcome different = run("diff " + root() + " " + root() + " --step-b 80");
  EXPECT_EQ(different.exit_code, 1);
  EXPECT_THAT(different.output,
              AllOf(HasSubstr("  --tp: 1 in A, 2 in B\n"),
                    HasSubstr("parameters/wte (f32 (37, 6)): 1 of 222 elements differ, by at most "
                              "0.25; first at (13, 4): 42.25 in A, 42 in B (0x42290000, "
                              "0x42280000)\n"),
                    HasSubstr("different: 1 tensor ")));
  const json found = run_json("diff " + root() + ":120 " + root() + ":40 --parameters-only", 1);
  EXPECT_EQ(found["tensors"][0]["first"]["index"], json({13, 4}));
  EXPECT_EQ(found["tensors_compared"], 2);

  const std::string with = "diff " + root() + ":120 " + root() + ":40 --tolerance ";
  const Outcome within = run(with + "0.006");  // 0.25 of 42.25
  EXPECT_EQ(within.exit_code, 0) << within.output;
  EXPECT_THAT(within.output,
              AllOf(HasSubstr("largest difference: 0.00591716 in parameters/wte at (13, 4): 42.25 "
                              "in A, 42 in B\n"),
                    HasSubstr("equal within the tolerance 0.006: 4 tensors")));
  EXPECT_EQ(run(with + "0.005").exit_code, 1);
  EXPECT_EQ(run(with + "0").exit_code, 64);
  const json measured = run_json(with + "0.006", 0);
  EXPECT_EQ(measured["within_tolerance"], true);
  EXPECT_EQ(measured["equal"], false);
  EXPECT_EQ(measured["tensors"][0]["largest"]["index"], json({13, 4}));

  const Manifest manifest = open_step(step(80)).manifest;
  flip_bit(step(80) + "/shard-00000.h5", manifest.find("parameters/wte")->pieces[0].offset);
  const Outcome damaged = run("diff " + root() + ":80 " + root() + ":40");
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.output, AllOf(HasSubstr("shard-00000.h5"), Not(HasSubstr("equal:"))));
}

// A sanitizer's own memory would count.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(CheckpointTools, DiffTakesLittleMemoryWhateverTheSize) {
  ToyState state;
  state.tensors = {toy_tensor<float>("parameters/wte", {4096, 8192}, 1, 1)};
  commit_toy(root(), 120, state);
  const std::string words = " diff " + root() + " " + root() + " --threads 1";
  const Outcome outcome = run_shell(  // 64 MiB for windows, the rest for programs and blocks
      "ulimit -d 114688; " TRIREME_BIN_DIR "/trireme checkpoint" + words, folder_ / "log");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("equal: 1 tensor, 128.0 MiB compared"));
}
#endif

TEST_F(CheckpointTools, PruneDeletesWhatRetentionDoesNotKeep) {
  for (const Index each : {20, 40, 60, 80}) commit_toy(root(), each, {});
  fs::create_directory(root() + "/step-000100.tmp-dead");
  const std::string words = "prune " + root() + " --keep-last 1 --save-retain-interval 40";
  const Outcome planned = run(words + " --dry-run");
  EXPECT_EQ(planned.exit_code, 0);
  EXPECT_THAT(planned.output, AllOf(HasSubstr("would delete steps: 60, 20\n"),
                                    HasSubstr("would clean leftovers: step-000100.tmp-dead\n")));
  EXPECT_EQ(list_steps(root()).size(), 4U);

  const json done = run_json(words);
  EXPECT_EQ(done["deleted"], json({60, 20}));
  EXPECT_EQ(done["kept"], json({80, 40}));
  EXPECT_EQ(done["leftovers"], json({"step-000100.tmp-dead"}));
  EXPECT_EQ(run_json("list " + root())["unfinished"], json::array());
  EXPECT_THAT(list_directory(root()), ElementsAre("step-000040", "step-000080"));
  EXPECT_THAT(run(words).output, HasSubstr("no step to delete"));
}

TEST_F(CheckpointTools, PruneIsRefusedWhileAJobWrites) {
  for (const Index each : {20, 40}) commit_toy(root(), each, {});
  LeaseOptions often;
  often.renew_s = 0.05;  // prune sees at once that the holder lives
  const Lease lease(root(), "run-of-the-test", often);
  const Outcome refused = run("prune " + root() + " --keep-last 1");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output,
              AllOf(HasSubstr("run-of-the-test"), HasSubstr(std::to_string(::getpid()))));
  EXPECT_EQ(list_steps(root()).size(), 2U);
}

TEST_F(CheckpointTools, PruneNeverDeletesTheNewestStepThatHolds) {
  for (const Index each : {20, 40, 60}) commit_toy(root(), each, {});
  fs::resize_file(step(60) + "/shard-00000.h5", 10);
  const Outcome done = run("prune " + root() + " --keep-last 1");
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.output, AllOf(HasSubstr("deleted steps: 20\nkept steps: 60, 40\n"),
                                 HasSubstr("bad: " + step(60) + "/shard-00000.h5")));
}

TEST_F(CheckpointTools, AWrongCommandIsExitCode64WithEveryMistake) {
  commit_toy(root(), 20, {});
  const Outcome prune = run("prune --keep-last 0 --dry");
  EXPECT_EQ(prune.exit_code, 64);
  EXPECT_THAT(prune.output,
              AllOf(HasSubstr("DIR is missing"), HasSubstr("--keep-last 0: "), HasSubstr("--dry")));
  EXPECT_EQ(run("prune " + root()).exit_code, 64);
  EXPECT_EQ(run("diff " + root()).exit_code, 64);
  EXPECT_EQ(run("verify " + root() + " --threads 0").exit_code, 64);
  EXPECT_EQ(run("shwo " + root()).exit_code, 64);
  EXPECT_EQ(run("list --help").exit_code, 0);
}

TEST_F(CheckpointTools, ADirectoryWithoutStepsIsNamed) {
  fs::create_directory(root());
  for (const std::string command : {"show ", "verify "}) {
    const Outcome empty = run(command + root());
    EXPECT_EQ(empty.exit_code, 64) << command;
    EXPECT_THAT(empty.output, HasSubstr(root() + " holds no committed step"));
    EXPECT_THAT(run(command + root() + "/none").output, HasSubstr("/none: no such directory"));
  }
  EXPECT_THAT(run("list " + root()).output, HasSubstr("0 committed steps"));
}

}  // namespace
}  // namespace trireme::test
