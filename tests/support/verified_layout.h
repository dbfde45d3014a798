// `trireme verify` on layouts of a small model, and what a test asks about its report. For
// integration tests, which know where the programs are.
#pragma once

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {

inline const std::string trireme_command = TRIREME_BIN_DIR "/trireme ",
                         train_gpt_program = TRIREME_BIN_DIR "/train_gpt ",
                         faulty = TRIREME_BIN_DIR "/hostile_layout_faults ";

class VerifiedLayout : public testing::Test {
 protected:
  VerifiedLayout() {
    const Outcome outcome = run_shell(
        trireme_command + "data prepare --input /usr/share/common-licenses/GPL-3 --output " +
            (folder_ / "corpus"),
        folder_ / "log");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    std::filesystem::create_directory(jobs());
  }

  std::string jobs() const { return folder_ / "jobs"; }
  std::string data() const { return "--data-path " + (folder_ / "corpus") + ' '; }
  std::string model() const {
    return data() +
           "--model gpt2-124m --num-layers 6 --hidden-size 32 --ffn-hidden-size 64 "
           "--num-attention-heads 4 --vocab-size 256 --seq-length 32 --global-batch-size 8 ";
  }
  /// The command, its environment, and mpirun with its options, before --.
  std::string line(int ranks, const std::string& options) const {
    const std::string start = TRIREME_MPIRUN;  // "cmake -E env NAME=VALUE ... mpirun"
    const std::size_t begin = start.find("env "), mpirun = start.rfind(' ');
    return str(start.substr(begin, mpirun - begin), ' ', trireme_command, "verify --ranks ", ranks,
               " --mpirun ", start.substr(mpirun + 1), " --directory ", jobs(), ' ', options);
  }
  /// `program`: and its options.
  Outcome verify(int ranks, const std::string& program, const std::string& options = "") const {
    const Outcome outcome = run_shell(line(ranks, options) + " -- " + program, folder_ / "log");
    EXPECT_TRUE(std::filesystem::is_empty(jobs())) << outcome.output;
    return outcome;
  }
  /// The report of a fault that is seen.
  nlohmann::json fault(int ranks, const std::string& options, const std::string& own = "") const {
    const Outcome outcome = verify(ranks, faulty + model() + options, "--json " + own);
    EXPECT_EQ(outcome.exit_code, 66) << outcome.output;
    const std::size_t begin = outcome.output.find('{');
    if (begin == std::string::npos) return {};
    return nlohmann::json::parse(outcome.output.substr(begin));
  }

  ScratchDirectory folder_;
};

inline void expect_proved(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, testing::HasSubstr("\nproved: "));
  EXPECT_THAT(outcome.output, testing::Not(testing::HasSubstr("DIFFERENT")));
}

}  // namespace trireme::test
