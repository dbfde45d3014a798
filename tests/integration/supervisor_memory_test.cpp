// trireme run with snapshots in memory and durable steps far apart: what a kill costs is no more
// than the interval of the snapshots, and no bit.
#include <csignal>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/tiers/slots.h"
#include "tests/interop/toy_model.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

constexpr Index interval = 2;

class SupervisedMemory : public SupervisedRun {
 protected:
  SupervisedMemory() { save_interval_ = 100000; }
  static std::string options(const std::string& more = "") {
    return str("--save-memory-interval ", interval, " ", more);
  }
  std::string snapshots() const {
    return store::snapshot_directory(supervisor::key_of(paths(), history().run));
  }
  /// Until attempt `number` has done a step after `before`.
  void wait_for_steps(std::size_t number, Index before) {
    ASSERT_TRUE(wait_until([&] {
      return !job_->running() || (history().attempts.size() >= number && step() > before &&
                                  rank_processes().size() == ranks);
    })) << output();
    ASSERT_TRUE(job_->running()) << output();
  }
  /// The steps that attempts loaded from memory, in order.
  std::vector<Index> loaded_from_memory() const {
    const std::regex line("loaded step ([0-9]+) from memory of the nodes");
    std::vector<Index> steps;
    for (std::size_t number = 1; number <= history().attempts.size(); ++number) {
      const std::string log = paths().attempt(static_cast<Index>(number)) + "/output.log";
      const std::string text = fs::exists(log) ? read_text(log) : "";
      std::smatch found;
      if (std::regex_search(text, found, line)) steps.push_back(std::stoll(found[1]));
    }
    return steps;
  }
};

// The files of --load-hf are where a run begins. What it needs of them later lies in the run.
TEST_F(SupervisedMemory, IsLoadedWhenTheModelThatTheRunBeganWithIsGone) {
  const ScratchDirectory from;
  const std::string config =
      R"({"model_type":"llama","vocab_size":256,"hidden_size":32,"num_hidden_layers":2,)"
      R"("num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":64,)"
      R"("max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000.0})";
  write_model(from, config, toy_model(config, "F32"));
  model_ = "--load-hf " + from.path();
  start("", trainer, options());
  wait_for_steps(1, 2 * interval);
  if (HasFatalFailure()) return;
  std::filesystem::remove(from / "config.json");
  std::filesystem::remove(from / "model.safetensors");
  kill(rank_processes().back(), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return loaded_from_memory().size() == 1 || !job_->running(); }));
  EXPECT_EQ(loaded_from_memory().size(), 1u) << output();
  EXPECT_EQ(durable(), 0);
  stop();
}

TEST_F(SupervisedMemory, LosesNoMoreThanOneIntervalAndNoBitWhenRanksAreKilled) {
  start("", trainer, options());
  std::vector<Index> least;
  Index before = 0;
  for (std::size_t kills = 1; kills <= 2; ++kills) {
    wait_for_steps(kills, before + 2 * interval);
    if (HasFatalFailure()) return;
    const Index until = step() + std::uniform_int_distribution<Index>(0, 3)(random_);
    wait_until([&] { return step() >= until || !job_->running(); });
    const std::vector<pid_t> found = rank_processes();
    ASSERT_EQ(found.size(), std::size_t{ranks}) << output();
    before = step();  // all ranks had ended the step before this one when it was written
    least.push_back((before - 1) / interval * interval);
    kill(found[random_() % ranks], SIGKILL);
    ASSERT_TRUE(
        wait_until([&] { return loaded_from_memory().size() >= kills || !job_->running(); }));
  }
  const std::vector<Index> loaded = loaded_from_memory();
  ASSERT_EQ(loaded.size(), least.size()) << output();
  for (std::size_t i = 0; i < loaded.size(); ++i) EXPECT_GE(loaded[i], least[i]) << output();
  EXPECT_EQ(durable(), 0);  // all that was loaded was in memory only
  wait_for_steps(3, before);
  if (HasFatalFailure()) return;
  const std::string status = shell(command + " status " + run_directory()).output;
  EXPECT_THAT(status, HasSubstr(", in memory step "));
  EXPECT_THAT(status, HasSubstr(str(", from step ", loaded.back(), " in memory")));
  finish();
  const History found = history();
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    EXPECT_EQ(found.attempts[i + 1].started.step, loaded[i]);
    EXPECT_EQ(found.attempts[i + 1].started.tier, "memory");
    EXPECT_LE(found.attempts[i].ended->last_step - loaded[i], interval);
  }
  const auto report =
      nlohmann::json::parse(shell(command + " report --json " + run_directory()).output);
  EXPECT_LE(report.at("causes").at("killed").at("lost_steps"), 2 * interval) << report;
  EXPECT_GT(report.at("useful_s"), report.at("lost_s")) << report;
  EXPECT_GE(report.at("from_memory"), 2) << report;
  EXPECT_FALSE(fs::exists(snapshots()));  // when it was stopped all was durable
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(SupervisedMemory, OutlivesMpirunAndTheSupervisor) {
  start("", trainer, options());
  wait_for_steps(1, 2 * interval);
  if (HasFatalFailure()) return;
  kill(mpirun(), SIGKILL);  // ranks do some more steps before they are ended
  ASSERT_TRUE(wait_until([&] { return !loaded_from_memory().empty() || !job_->running(); }));
  wait_for_steps(2, step() + interval);
  if (HasFatalFailure()) return;
  EXPECT_EQ(loaded_from_memory().size(), 1u) << output();
  job_->send(SIGKILL);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  EXPECT_TRUE(wait_until([&] { return processes_with(run_directory()) == 0; }));
  EXPECT_TRUE(fs::exists(snapshots()));
  const Index done = step();
  last_step_ = done + 20;
  start("", trainer, options());
  EXPECT_EQ(wait(), 0) << output();
  ASSERT_EQ(loaded_from_memory().size(), 2u) << output();
  EXPECT_GE(loaded_from_memory().back(), (done - 1) / interval * interval);
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(SupervisedMemory, IsRemovedByHandOnlyWhenNoSupervisorRuns) {
  start("", trainer, options());
  wait_for_steps(1, 2 * interval);
  if (HasFatalFailure()) return;
  const std::string directory = snapshots();
  EXPECT_TRUE(fs::exists(directory));
  const std::string clean = command + " nodes clean " + run_directory();
  EXPECT_THAT(shell(clean).output, HasSubstr("whose job uses its snapshots: stop it first"));
  EXPECT_TRUE(fs::exists(directory));
  job_->send(SIGKILL);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  EXPECT_TRUE(wait_until([&] { return processes_with(run_directory()) == 0; }));
  EXPECT_THAT(shell(clean).output, HasSubstr("removed " + directory));
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_THAT(shell(clean).output, HasSubstr("nothing to remove"));
  last_step_ = 6;
  start("", trainer, options());
  EXPECT_EQ(wait(), 0) << output();
  EXPECT_TRUE(loaded_from_memory().empty()) << output();
  expect_nothing_left();
}

TEST_F(SupervisedMemory, IsLoadedWhereSamplesAreLeftOut) {
  layout_ += " --skip-samples 8-15";
  start("", trainer, options());
  wait_for_steps(1, 2 * interval);
  if (HasFatalFailure()) return;
  kill(rank_processes().back(), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return !loaded_from_memory().empty() || !job_->running(); }));
  wait_for_steps(2, step());
  if (HasFatalFailure()) return;
  EXPECT_EQ(history().attempts.back().started.tier, "memory") << output();
  finish();
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

TEST_F(SupervisedMemory, HasNoStepWithWrongBitsWhereReplicasAreCompared) {
  const std::string flips = TRIREME_BIN_DIR "/hostile_flips";
  last_step_ = 16;
  start("", flips, options("--flip master:1:9"));
  ASSERT_EQ(wait(), 0) << output();
  const History found = history();
  ASSERT_EQ(found.attempts.size(), 2u) << output();
  EXPECT_EQ(found.attempts[0].ended->cause, supervisor::Cause::corruption);
  EXPECT_EQ(found.attempts[1].started.tier, "memory");
  EXPECT_EQ(found.attempts[1].started.step, 8) << "replicas were equal, and differ at step 10";
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run("", "", flips);
}

TEST_F(SupervisedMemory, NeedsASupervisor) {
  const std::string line = TRIREME_MPIRUN;
  const std::string alone = line.substr(line.rfind(' ')) + str(" --timeout 60 -np ", ranks, " ") +
                            trainer + training(run_directory(), options());
  const Outcome refused = shell(alone);
  EXPECT_EQ(refused.exit_code, 64) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("--save-memory-interval 2 needs a supervisor, which says"));
}

}  // namespace
}  // namespace trireme::test
