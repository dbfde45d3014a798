// A job that is killed with -9 again and again, at any moment and in any of its processes, and
// started again each time, ends as if nothing had happened: the same bits in every loss, every
// parameter and the last checkpoint. `tests/kills` repeats this for long. The seed
// (--gtest_random_seed) decides who is killed when; the machine's timing does the rest.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "tests/support/kill_job.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kills_of_a_layout = 8, steps = 60;

struct KilledLayout {
  const char* name;
  int ranks;
  const char* options;
};
void PrintTo(const KilledLayout& layout, std::ostream* out) { *out << layout.name; }

/// Names in a directory that exists.
std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, none))
    names.insert(entry.path().filename().string());
  return names;
}

bool unfinished(const std::string& name) { return name.find(".tmp-") != name.npos; }

/// The newest committed step, 0 when there is none.
Index newest_step(const std::string& directory) {
  Index newest = 0;
  for (const std::string& name : names_in(directory))
    if (name.starts_with("step-") && name.find('.') == name.npos)
      newest = std::max(newest, Index{std::stoll(name.substr(5))});
  return newest;
}

/// Step by step what a metrics file says, but for the times. Throws: Error unless each step is
/// there once, in order.
std::vector<nlohmann::json> rows_of_all_steps(const std::string& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);) {
    nlohmann::json row = nlohmann::json::parse(line);
    row.erase("step_ms");
    row.erase("tokens_per_s");
    rows.push_back(row);
    require(row.at("step") == rows.size(), path, ": step ", row.at("step").dump(), " is line ",
            rows.size());
  }
  require(rows.size() == steps, path, " has ", rows.size(), " lines");
  return rows;
}

/// Of one training job: where it writes.
struct Paths {
  std::string checkpoints, metrics, tensors, log;
  Paths(const ScratchDirectory& folder, const std::string& name)
      : checkpoints(folder / (name + ".checkpoints")),
        metrics(folder / (name + ".jsonl")),
        tensors(folder / (name + ".tensors")),
        log(folder / (name + ".log")) {}
};

class Kills : public testing::TestWithParam<KilledLayout> {
 protected:
  Kills() {
    command(
        "trireme data prepare --input /usr/share/common-licenses/GPL-3 "
        "/usr/share/common-licenses/Apache-2.0 --output " +
        (folder_ / "corpus"));
  }

  /// Throws: Error with the output unless the exit code is 0.
  void command(const std::string& line) const {
    const std::string log = folder_ / "command.log";
    const int status = std::system((TRIREME_BIN_DIR "/" + line + " > " + log + " 2>&1").c_str());
    require(status == 0, line, "\nended with status ", status, ":\n", read_text(log));
  }

  std::unique_ptr<KillableJob> start(const Paths& paths, const std::string& options) {
    // Half of the launchers leave the other ranks a second to live on.
    const char* grace = random() % 2 == 0 ? "" : " --mca odls_base_sigkill_timeout 0";
    return std::make_unique<KillableJob>(
        str(TRIREME_MPIRUN " --timeout 120", grace, " -np ", GetParam().ranks),
        TRIREME_BIN_DIR "/train_gpt",
        str("--data-path ", folder_ / "corpus",
            " --model gpt2-124m --num-attention-heads 4 --num-layers 2 --vocab-size 256 "
            "--seq-length 48 "
            "--hidden-size 64 --ffn-hidden-size 256 --hidden-dropout 0.1 --global-batch-size 16 "
            "--lr 3e-3 --lr-warmup-iters 2 --split 90,10,0 --eval-interval 20 --eval-iters 2 "
            "--log-interval 1 --train-iters ",
            steps, " ", GetParam().options, " --metrics ", paths.metrics, " --dump-tensors ",
            paths.tensors, " --save ", paths.checkpoints, " --save-interval 5 ", options),
        paths.log);
  }

  void run_reference();
  void run_with_kills(const Paths& paths);
  void compare(const Paths& paths);
  unsigned random() { return random_(); }

  ScratchDirectory folder_;
  const Paths reference_{folder_, "reference"};
  Seconds duration_{0};  // of the run without kills
  int kills_ = 0;

 private:
  bool kill_at_random(KillableJob& job, const Paths& paths);
  std::string phase(const Paths& paths) const;
  std::string save_under_way(const Paths& paths) const;
  void check_where_it_went_on(const Paths& paths, Index committed_before) const;

  double uniform(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random_);
  }
  const unsigned seed_ = GTEST_FLAG_GET(random_seed) != 0
                             ? static_cast<unsigned>(GTEST_FLAG_GET(random_seed))
                             : std::random_device()() % 99999 + 1;
  testing::ScopedTrace trace_{__FILE__, __LINE__, str("--gtest_random_seed=", seed_)};
  std::mt19937 random_{seed_};
  std::set<std::string> leftovers_;  // of jobs before this one
};

void Kills::run_reference() {
  const Clock::time_point begin = Clock::now();
  const std::unique_ptr<KillableJob> job = start(reference_, "");
  const int code = job->wait();
  duration_ = Clock::now() - begin;
  require(code == 0, "the run without kills ended with ", code, ":\n", read_text(reference_.log));
}

/// The unfinished directory of this job, "" when there is none.
std::string Kills::save_under_way(const Paths& paths) const {
  for (const std::string& name : names_in(paths.checkpoints))
    if (unfinished(name) && leftovers_.count(name) == 0) return paths.checkpoints + "/" + name;
  return "";
}

/// What the job was doing, as seen from outside.
std::string Kills::phase(const Paths& paths) const {
  const std::string log = read_text(paths.log);
  if (log.find("effective configuration") == log.npos) return "starting";
  if (log.find("#   step ") == log.npos) return "loading";
  const std::string save = save_under_way(paths);
  if (!save.empty()) return fs::exists(save + "/manifest.json") ? "committing" : "saving";
  const std::string last_line = str("{\"step\":", steps, ",");
  return read_text(paths.metrics).find(last_line) == std::string::npos ? "training" : "ending";
}

/// Half of the kills come at any moment of a run, the others soon after a save has begun. False
/// when the job had ended.
bool Kills::kill_at_random(KillableJob& job, const Paths& paths) {
  const Clock::time_point begin = Clock::now();
  const bool aimed = random() % 2 == 0;
  const Seconds moment = duration_ * uniform(0, aimed ? 0.8 : 1.1);
  while (!job.ended() && Clock::now() - begin < moment)
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  if (aimed) {
    while (!job.ended() && save_under_way(paths).empty())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    std::this_thread::sleep_for(Seconds(uniform(0, 0.010)));
  }
  const unsigned lot = random() % 20, choice = random();
  const std::string doing = phase(paths);
  const std::optional<Victim> victim = job.kill(lot < 11   ? Victim::rank
                                                : lot < 17 ? Victim::launcher
                                                           : Victim::all,
                                                choice);
  if (!victim) return false;
  const char* names[] = {"one rank", "mpirun", "all"};
  std::printf("kill %d: %s: %s while %s\n", ++kills_, GetParam().name,
              names[static_cast<int>(*victim)], doing.c_str());
  std::fflush(stdout);  // tests/kills counts these lines meanwhile
  return true;
}

/// A job resumes after the newest step that was committed when it started: never before it, though
/// perhaps after it, if ranks of the job before had a second more.
void Kills::check_where_it_went_on(const Paths& paths, Index committed_before) const {
  const std::string log = read_text(paths.log);
  // The first row of the table; below it mpirun may complain.
  const std::regex row("#   step [^\n]*\n#[^\n]*\n(?:# [^\n]*\n)* *([0-9]+) [^\n]*\n");
  std::smatch found;
  if (!std::regex_search(log, found, row)) return;  // killed before
  EXPECT_GT(std::stoll(found[1]), committed_before) << log;
}

/// Starts the job, kills it, and so on, until it has come to its end.
void Kills::run_with_kills(const Paths& paths) {
  std::deque<std::unique_ptr<KillableJob>> jobs;
  for (int attempt = 0; attempt < 100; ++attempt) {
    leftovers_ = names_in(paths.checkpoints);
    const Index committed = newest_step(paths.checkpoints);
    jobs.push_back(start(paths, str("--keep-last 3 --load ", paths.checkpoints)));
    const bool killed = kill_at_random(*jobs.back(), paths);
    const int code = jobs.back()->wait();
    check_where_it_went_on(paths, committed);
    EXPECT_GE(newest_step(paths.checkpoints), committed);
    if (code == 0) {
      for (const std::unique_ptr<KillableJob>& job : jobs) job->wait_until_gone();
      return;
    }
    require(killed, "it was not killed, and it ended with ", code, ":\n", read_text(paths.log));
    if (random() % 2 == 0) jobs.back()->wait_until_gone();  // else the next one meets its orphans
  }
  throw Error("100 jobs did not come to the end:\n" + read_text(paths.log));
}

void Kills::compare(const Paths& paths) {
  const std::vector<nlohmann::json> expected = rows_of_all_steps(reference_.metrics);
  const std::vector<nlohmann::json> found = rows_of_all_steps(paths.metrics);
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(found[i].dump(), expected[i].dump());

  for (const char* part : {".parameters.index", ".parameters.f32"}) {
    EXPECT_FALSE(read_text(reference_.tensors + part).empty());
    EXPECT_EQ(read_text(paths.tensors + part) == read_text(reference_.tensors + part), true)
        << part;
  }
  const std::string last = str("/step-", std::string(4, '0'), steps);
  command("trireme checkpoint diff " + paths.checkpoints + last + " " + reference_.checkpoints +
          last);
  command("trireme checkpoint verify " + paths.checkpoints);
  // A kill between a commit and the deletions after it leaves older steps there until the next
  // save; nothing else stays.
  std::set<std::string> names = names_in(paths.checkpoints);
  for (const char* newest : {"step-000060", "step-000055", "step-000050"})
    EXPECT_EQ(names.erase(newest), 1U) << newest;
  for (const std::string& name : names)
    EXPECT_TRUE(name.starts_with("step-") && name.find('.') == name.npos) << name;
}

TEST_P(Kills, EveryBitIsThatOfTheRunWithoutKills) {
  run_reference();
  for (int round = 0; kills_ < kills_of_a_layout; ++round) {
    const Paths paths(folder_, str("round", round));
    run_with_kills(paths);
    compare(paths);
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Kills,
    testing::Values(KilledLayout{"1 rank", 1, ""},
                    KilledLayout{"data 2 x tensor 2, ZeRO", 4,
                                 "--tp 2 --use-distributed-optimizer --lm-head-chunks 5"},
                    KilledLayout{"data 2, ZeRO in bf16", 2, "--bf16 --use-distributed-optimizer"},
                    KilledLayout{"data 2 x pipeline 2", 4, "--pp 2 --micro-batch-size 2"}));

}  // namespace
}  // namespace trireme::test
