// TrainingHarness: trains one small model on real text as train_gpt does, however its ranks are
// started, so that runs can be compared. For integration tests, which know where the programs are.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "trireme/core/error.h"

#include "tests/support/gpt_ranks.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"

namespace trireme::test {

inline const std::string gpt = "--model gpt2-124m --num-attention-heads 12 ";
inline const std::string llama = "--model llama-1b --num-attention-heads 24 --num-query-groups 12 ";
/// Norms of queries and keys, heads of 16 in a width of 96, scaled positions, and all biases of
/// queries, keys and values.
inline const std::string qwen3 =
    "--model qwen3-0.6b --num-attention-heads 12 --num-query-groups 12 --kv-channels 16 "
    "--add-qkv-bias --rope-type yarn --rope-scaling-factor 4 --rope-original-positions 64 ";
inline const std::string adamw = "--optimizer adamw --lr 3e-3 ";
inline const std::string sgd = "--optimizer sgd --lr 0.1 ";
inline const std::string small = "--hidden-size 96 --ffn-hidden-size 384 --train-iters 10 ";

/// mpirun with `ranks` ranks, which do `jobs` jobs one after the other; nothing for one.
inline std::string mpirun(int ranks, std::size_t jobs = 1) {
  return ranks == 1 ? "" : str(TRIREME_MPIRUN " --timeout ", 120 * jobs, " -np ", ranks, " ");
}

/// How the ranks of a job are started: as threads of the test's process, or by what precedes a
/// program; nothing precedes that of one rank.
class RankStart {
 public:
  RankStart(const char* before) : before_(before) {}
  RankStart(std::string before) : before_(std::move(before)) {}
  static RankStart threads(int ranks, Decorate decorate) {
    RankStart start("");
    start.threads_ = ranks;
    start.decorate_ = std::move(decorate);
    return start;
  }
  int threads() const { return threads_; }  // 0: it is a program
  const Decorate& decorate() const { return decorate_; }
  const std::string& before() const { return before_; }

 private:
  std::string before_;
  int threads_ = 0;
  Decorate decorate_;
};

inline RankStart ranks_as_threads(int ranks, Decorate decorate = {}) {
  return RankStart::threads(ranks, std::move(decorate));
}

/// Holds the options of train_gpt, but for the model.
inline const std::string small_text =
    "--num-layers 4 --vocab-size 256 --seq-length 48 --global-batch-size 8 --lr-warmup-iters 2 ";

class TrainingHarness {
 public:
  /// `size`, `text`: options of all jobs; where both are empty, jobs give all, --data-path as well.
  explicit TrainingHarness(std::string size = small, std::string text = small_text)
      : size_(std::move(text) + std::move(size)) {
    // Real text, on every Debian: on pseudo-random letters training is so ill-conditioned that
    // rounding errors grow.
    run_command(str(TRIREME_BIN_DIR
                    "/trireme data prepare --input /usr/share/common-licenses/GPL-3 "
                    "/usr/share/common-licenses/Apache-2.0 --output ",
                    data()));
  }

  /// Throws: Error, with the output of a program, when the run fails.
  TrainingRun train(const RankStart& start, const std::string& options) {
    const std::string prefix = next_prefix();
    run(start, dumping(prefix, options));
    return read_training_run(prefix);
  }
  /// The same without tensors, for runs that do not begin at step 1.
  std::vector<StepLine> losses(const RankStart& start, const std::string& options) {
    const std::string prefix = next_prefix();
    run(start, job(prefix, options));
    return read_steps(prefix + ".jsonl");
  }

  struct Job {
    std::string environment, options;  // "NAME=value NAME=value"
  };
  /// All jobs by one start, one after the other (tests/ranks/many_layouts.cpp).
  std::vector<TrainingRun> train_all(const std::string& before, const std::vector<Job>& jobs) {
    std::vector<std::string> prefixes;
    std::ofstream lines(folder_ / "jobs");
    for (const Job& each : jobs) {
      prefixes.push_back(next_prefix());
      lines << each.environment << ' ' << dumping(prefixes.back(), each.options) << '\n';
    }
    lines.close();
    run_command(str(before, TRIREME_BIN_DIR "/many_layouts ", folder_ / "jobs"));
    std::vector<TrainingRun> runs;
    for (const std::string& prefix : prefixes) runs.push_back(read_training_run(prefix));
    return runs;
  }

  /// PREFIX of the text.
  std::string data() const { return folder_ / "corpus"; }
  /// What the last run printed.
  const std::string& output() const { return output_; }

 private:
  std::string job(const std::string& prefix, const std::string& options) const {
    const std::string what = size_.empty() ? "" : "--data-path " + data() + " --log-interval 10 ";
    return str(what, size_, "--metrics ", prefix, ".jsonl ", options);
  }

  std::string next_prefix() { return folder_ / str("run", runs_++); }
  std::string dumping(const std::string& prefix, const std::string& options) const {
    return job(prefix, str("--dump-tensors ", prefix, " ", options));
  }

  void run(const RankStart& start, const std::string& options) {
    if (start.threads() > 0)
      output_ = train_gpt_on_threads(start.threads(), options, start.decorate());
    else
      run_command(str(start.before(), TRIREME_BIN_DIR "/train_gpt ", options));
  }
  void run_command(const std::string& command) {
    const std::string log = folder_ / "log";
    const int status = std::system((command + " > " + log + " 2>&1").c_str());
    std::ifstream in(log);
    output_.assign(std::istreambuf_iterator<char>(in), {});
    require(status == 0, command, "\nended with status ", status, ":\n", output_);
  }

  std::string size_;
  ScratchDirectory folder_;
  std::string output_;
  int runs_ = 0;
};

}  // namespace trireme::test
