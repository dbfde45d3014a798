// CheckpointJobs: train_gpt and trireme on one small model, in a folder of their own, so that a
// test says only which ranks and options, and what is wrong with the disk. For integration tests,
// which know where the programs are.
#pragma once

#include <string>

#include "trireme/core/error.h"

#include "tests/support/gpt_ranks.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"

namespace trireme::test {

struct Layout {
  std::string name;
  int ranks;
  std::string options;  // of parallelism, with the micro-batch size
};

class CheckpointJobs {
  ScratchDirectory folder_;

 public:
  /// What jobs train: options of the model, its sizes among them, and of the optimizer; and on
  /// what.
  std::string model, data = folder_ / "data";

  explicit CheckpointJobs(std::string model_options) : model(std::move(model_options)) {
    // Real text, on every Debian: on pseudo-random letters training is so ill-conditioned that
    // rounding errors grow.
    succeed(
        trireme("data prepare --input /usr/share/common-licenses/GPL-3 "
                "/usr/share/common-licenses/Apache-2.0 --output " +
                data));
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  static std::string trireme(const std::string& arguments) {
    return "timeout 120 " TRIREME_BIN_DIR "/trireme " + arguments;
  }
  /// Returns the options of the program: those of the model, and `options`.
  std::string all_options(const std::string& options) const {
    return str("--data-path ", data, " --global-batch-size 8 --log-interval 1000 ", model, " ",
               options);
  }
  /// The program with its options, without its start.
  std::string program(const std::string& options) const {
    return TRIREME_BIN_DIR "/train_gpt " + all_options(options);
  }
  /// A command: `before` (variables of the environment, a wrapper) precedes each rank's
  /// program.
  std::string training(const Layout& layout, const std::string& options,
                       const std::string& before = "") const {
    const std::string start = layout.ranks == 1
                                  ? "timeout 120 "
                                  : str(mpirun(), " --timeout 120 -np ", layout.ranks, " ");
    return start + (before.empty() ? "" : "env " + before + " ") +
           program(layout.options + " " + options);
  }

  /// What training() trains, on ranks that are threads of this process. Throws: Error when it
  /// fails.
  void train(const Layout& layout, const std::string& options) const {
    train_gpt_on_threads(layout.ranks, all_options(layout.options + " " + options));
  }

  Outcome run(const std::string& command) const { return run_shell(command, folder_ / "log"); }
  /// Throws: Error with the output when the command fails.
  std::string succeed(const std::string& command) const {
    const Outcome outcome = run(command);
    require(outcome.exit_code == 0, command, "\nended with ", outcome.exit_code, ":\n",
            outcome.output);
    return outcome.output;
  }

 private:
  /// What CMake starts with "cmake -E env" begins with env here, which mpirun replaces: signals
  /// reach it.
  static std::string mpirun() {
    const std::string line = TRIREME_MPIRUN;
    return line.substr(line.find("env "));
  }
};

inline const std::string small_gpt =
    "--model gpt2-124m --num-layers 4 --hidden-size 96 --ffn-hidden-size 384 "
    "--num-attention-heads 12 --vocab-size 256 --seq-length 48 "
    "--optimizer adamw --lr 3e-3 --lr-warmup-iters 2 --lr-decay-iters 20 ";
/// For jobs of many steps.
inline const std::string tiny_gpt =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --vocab-size 256 --seq-length 16 ";
inline const std::string small_llama =
    "--model llama-1b --num-layers 4 --hidden-size 96 --ffn-hidden-size 384 "
    "--num-attention-heads 24 --num-query-groups 12 --vocab-size 256 --seq-length 48 "
    "--optimizer adamw --lr 3e-3 --lr-warmup-iters 2 --lr-decay-iters 20 ";

}  // namespace trireme::test
