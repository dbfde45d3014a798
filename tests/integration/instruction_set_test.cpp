// The instruction set of a job, by option and by environment: one bit pattern for one set, and one
// message for a wrong one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/kernels/device.h"

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class InstructionSets : public testing::Test {
 protected:
  Outcome train(const std::string& environment, const std::string& options) const {
    return run_shell("env -u TRIREME_INSTRUCTION_SET " + environment +
                         " " TRIREME_BIN_DIR "/mlp --train-iters 3 " + options,
                     folder_ / "log");
  }
  /// The parameters that three steps of training give.
  std::map<std::string, std::vector<float>> trained(const std::string& set,
                                                    const std::string& environment,
                                                    const std::string& options) const {
    const std::string prefix = folder_ / "run";
    const Outcome outcome =
        train(environment, str(options, " --metrics ", prefix, ".jsonl --dump-tensors ", prefix));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(str(", ", set, ", 1 thread")));  // the device's line
    return read_training_run(prefix).parameters.tensors;
  }

  ScratchDirectory folder_;
};

TEST_F(InstructionSets, OptionAndEnvironmentGiveTheSameBitsAndTheOptionWins) {
  const auto portable = trained("portable", "", "--instruction-set portable");
  EXPECT_EQ(trained("portable", "TRIREME_INSTRUCTION_SET=portable", ""), portable);
  if (!available(InstructionSet::avx2)) return;
  const auto avx2 = trained("avx2", "TRIREME_INSTRUCTION_SET=portable", "--instruction-set avx2");
  EXPECT_EQ(trained("avx2", "TRIREME_INSTRUCTION_SET=avx2", ""), avx2);
  EXPECT_NE(avx2, portable);
}

TEST_F(InstructionSets, AWrongOneIsOneMessageAndExitCode64) {
  const Outcome unknown = train("TRIREME_INSTRUCTION_SET=avx1024", "");
  EXPECT_EQ(unknown.exit_code, 64);
  EXPECT_EQ(count(unknown.output, "TRIREME_INSTRUCTION_SET=avx1024: expected best, portable"), 1)
      << unknown.output;
  const Outcome option = train("", "--instruction-set sse");
  EXPECT_EQ(option.exit_code, 64);
  EXPECT_EQ(count(option.output, "--instruction-set"), 1) << option.output;
  if (available(InstructionSet::avx512)) return;
  for (const auto& [environment, options] :
       {std::pair{"TRIREME_INSTRUCTION_SET=avx512", ""}, {"", "--instruction-set avx512"}}) {
    const Outcome missing = train(environment, options);
    EXPECT_EQ(missing.exit_code, 64);
    EXPECT_EQ(count(missing.output, "this machine cannot run such code"), 1) << missing.output;
  }
}

}  // namespace
}  // namespace trireme::test
