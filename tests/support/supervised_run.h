// SupervisedRun: `trireme run` with the real trainer on a tiny model, in a folder of its own, and
// what a test asks about it. For integration tests, which know where the programs are.
#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/progress.h"
#include "launch/supervisor/machine/run_directory.h"
#include "tests/support/find_processes.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {

namespace fs = std::filesystem;
using supervisor::History;

constexpr int ranks = 4;
inline const std::string trainer = TRIREME_BIN_DIR "/train_gpt",
                         command = TRIREME_BIN_DIR "/trireme";

/// "env NAME=VALUE ... mpirun" of the tests, without mpirun.
inline std::string environment() {
  const std::string line = TRIREME_MPIRUN;
  const std::size_t begin = line.find("env ");
  return line.substr(begin, line.rfind(' ') - begin);
}

class SupervisedRun : public testing::Test {
 protected:
  SupervisedRun() {
    fs::create_directory(folder_ / "tmp");
    const Outcome made =
        shell(command + " data prepare --input /usr/share/common-licenses/GPL-3 --output " +
              (folder_ / "corpus"));
    require(made.exit_code == 0, made.output);
  }
  ~SupervisedRun() override {
    job_.reset();
    wait_until([&] { return processes_with(folder_ / "") == 0; });
  }

  std::string run_directory() const { return folder_ / "run"; }
  supervisor::Paths paths() const { return supervisor::Paths(run_directory()); }

  Outcome shell(const std::string& line) const {
    return run_shell(environment() + " TMPDIR=" + (folder_ / "tmp") + " " + line,
                     folder_ / "shell.log");
  }
  std::string training(const std::string& run, const std::string& options) const {
    return str(" ", model_, " --seq-length 32 --hidden-dropout 0.1 ", layout_,
               " --log-interval 1 --lr-decay-iters 1000 --train-iters ", last_step_,
               " --data-path ", folder_ / "corpus", " --save ", run, " ",
               saves_.empty() ? str("--save-interval ", save_interval_) : saves_, " --keep-last 3 ",
               options);
  }
  std::string supervision(const std::string& own, const std::string& program,
                          const std::string& options) const {
    return str(command, " run --quiet -n ", per_host_, " ", own, " -- ", program,
               training(run_directory(), options));
  }
  void start(const std::string& own = "", const std::string& program = trainer,
             const std::string& options = "") {
    log_ = folder_ / str("log", jobs_++);
    job_ = std::make_unique<BackgroundProcess>(
        str("exec ", environment(), " TMPDIR=", folder_ / "tmp", " ", variables_, " ",
            supervision(own, program, options)),
        log_);
  }
  std::string output() const { return read_text(log_); }
  int wait() { return job_->wait().exit_code; }

  History history() const { return supervisor::read_history(paths()); }
  std::vector<std::string> causes() const {
    std::vector<std::string> all;
    for (const supervisor::Attempt& attempt : history().attempts)
      all.push_back(attempt.ended ? name(attempt.ended->cause) : "none");
    return all;
  }
  pid_t mpirun() const {
    const std::vector<pid_t> found = children(job_->id(), "mpirun");
    return found.empty() ? 0 : found.front();
  }
  std::vector<pid_t> rank_processes() const { return children(mpirun(), "train_gpt"); }
  Index step() const { return supervisor::last_step_in(run_directory() + "/metrics.jsonl"); }
  Index durable() const {
    const auto steps = supervisor::durable_steps(run_directory(), 1);
    return steps.empty() ? 0 : steps.front();
  }
  /// Until attempt `number` runs and has made a durable step that the run did not have before.
  void wait_for_progress(std::size_t number, Index before) {
    ASSERT_TRUE(wait_until([&] {
      return !job_->running() || (history().attempts.size() >= number && durable() > before &&
                                  std::ssize(rank_processes()) == ranks_);
    })) << output();
    ASSERT_TRUE(job_->running()) << output();
  }

  /// By SIGTERM: it saves, and another start continues it.
  void stop() {
    job_->send(SIGTERM);
    EXPECT_EQ(wait(), 75) << output();
  }
  /// Once attempt `number`, the last one, has made a durable step.
  void stop_after_progress(std::size_t number);
  void finish(const std::string& program = trainer);
  /// `variables`, `options`: of its mpirun.
  void expect_the_bits_of_an_undisturbed_run(const std::string& variables = "",
                                             const std::string& options = "",
                                             const std::string& program = trainer);
  void expect_nothing_left() const;

  ScratchDirectory folder_;
  std::unique_ptr<BackgroundProcess> job_;
  std::string log_;
  int jobs_ = 0;
  int per_host_ = ranks, ranks_ = ranks;
  std::string model_ = "--model tiny --num-layers 2 --hidden-size 32 --ffn-hidden-size 64";
  std::string layout_ = "--tp 2 --global-batch-size 8";
  std::string variables_;     // "NAME=VALUE ..." for the supervisor and its job
  Index last_step_ = 100000;  // until finish() chooses one
  Index save_interval_ = 5;
  std::string saves_;  // options in place of --save-interval
  std::mt19937 random_{std::random_device()()};
};

inline std::vector<nlohmann::json> rows_without_times(const std::string& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);) {
    rows.push_back(nlohmann::json::parse(line));
    for (const char* time : {"step_ms", "tokens_per_s"}) rows.back().erase(time);
  }
  return rows;
}

inline void SupervisedRun::stop_after_progress(std::size_t number) {
  const Index before = durable();
  ASSERT_TRUE(wait_until([&] { return durable() > before || !job_->running(); })) << output();
  stop();
  EXPECT_EQ(history().attempts.size(), number) << output();
}

/// Stops the run, and has it finish a few steps later.
inline void SupervisedRun::finish(const std::string& program) {
  job_->send(SIGTERM);
  ASSERT_EQ(wait(), 75) << output();
  last_step_ = durable() + 3;
  start("", program);
  ASSERT_EQ(wait(), 0) << output();
}

inline void SupervisedRun::expect_the_bits_of_an_undisturbed_run(const std::string& variables,
                                                                 const std::string& options,
                                                                 const std::string& program) {
  const std::string reference = folder_ / "reference";
  const std::string line = TRIREME_MPIRUN;
  const Outcome outcome =
      shell(variables + line.substr(line.rfind(' ')) +
            str(options, " --timeout 120 -np ", ranks_, " ") + program + training(reference, ""));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(rows_without_times(run_directory() + "/metrics.jsonl"),
            rows_without_times(reference + "/metrics.jsonl"));
  const Outcome diff = shell(command + " checkpoint diff " + run_directory() + " " + reference);
  EXPECT_EQ(diff.exit_code, 0) << diff.output;
  // The supervisor's files lie in the run, and are none of the checkpoints' business.
  const Outcome list = shell(command + " checkpoint list " + run_directory());
  EXPECT_EQ(list.exit_code, 0) << list.output;
  EXPECT_EQ(count(list.output, "supervisor"), 0) << list.output;
}

inline void SupervisedRun::expect_nothing_left() const {
  EXPECT_EQ(processes_with(run_directory()), 0);
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
  const std::string key = supervisor::key_of(paths(), history().run);
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find(key), std::string::npos) << entry.path();
  for (const char* name : {"/supervisor/lock", "/supervisor/stop"})
    EXPECT_FALSE(fs::exists(run_directory() + name)) << name;
}

}  // namespace trireme::test
