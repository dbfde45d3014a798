// TrainingHarness: trains one small model on real text with train_gpt, however it is started, so
// that runs can be compared. For integration tests, which know where the programs are.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "trireme/core/error.h"

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

/// mpirun with `ranks` ranks; nothing for one.
inline std::string mpirun(int ranks) {
  return ranks == 1 ? "" : str(TRIREME_MPIRUN " --timeout 120 -np ", ranks, " ");
}

class TrainingHarness {
 public:
  explicit TrainingHarness(std::string size = small) : size_(std::move(size)) {
    // Real text, on every Debian: on pseudo-random letters training is so ill-conditioned that
    // rounding errors grow.
    run(str(TRIREME_BIN_DIR "/trireme data prepare --input /usr/share/common-licenses/GPL-3 "
                            "/usr/share/common-licenses/Apache-2.0 --output ",
            folder_ / "corpus"));
  }

  /// `start`: what precedes the program. Throws: Error with the output when the run fails.
  TrainingRun train(const std::string& start, const std::string& options) {
    const std::string prefix = next_prefix();
    run_program(start, prefix, str("--dump-tensors ", prefix, " ", options));
    return read_training_run(prefix);
  }
  /// The same without tensors, for runs that do not begin at step 1.
  std::vector<StepLine> losses(const std::string& start, const std::string& options) {
    const std::string prefix = next_prefix();
    run_program(start, prefix, options);
    return read_steps(prefix + ".jsonl");
  }

  /// What the last run printed.
  const std::string& output() const { return output_; }

 private:
  std::string next_prefix() { return folder_ / str("run", runs_++); }

  void run_program(const std::string& start, const std::string& prefix,
                   const std::string& options) {
    run(str(start, TRIREME_BIN_DIR "/train_gpt --data-path ", folder_ / "corpus",
            " --num-layers 4 --vocab-size 256 --seq-length 48 "
            "--global-batch-size 8 --lr-warmup-iters 2 --log-interval 10 ",
            size_, "--metrics ", prefix, ".jsonl ", options));
  }

  void run(const std::string& command) {
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
