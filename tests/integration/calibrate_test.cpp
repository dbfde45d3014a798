// trireme plan --calibrate, a plan with what it wrote, and --try.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/core/json/json.h"
#include "runtime/cost/profile.h"
#include "tests/support/as_one_line.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class Calibrated : public testing::Test {
 protected:
  OutcomeApart plan(const std::string& words) const {
    return run_apart(TRIREME_BIN_DIR "/trireme plan " + words, folder_ / "out");
  }
  OutcomeApart calibrate(const std::string& words) const {
    return plan("--calibrate " + file() + " --ranks 2 --mpirun '" + mpirun() + "' " + words);
  }
  std::string file() const { return folder_ / "cpu.json"; }
  static std::string mpirun() { return "mpirun --allow-run-as-root --oversubscribe"; }
  ScratchDirectory folder_;
};

TEST_F(Calibrated, ProfilesPlanTheModelAndItsBestLayoutsRun) {
  const OutcomeApart measured = calibrate("--model tiny -- --device cpu --seconds 2");
  ASSERT_EQ(measured.exit_code, 0) << measured.errors;
  const cost::Profile profile = cost::read_profile(file());
  EXPECT_EQ(profile.grade, cost::Grade::shapes);
  EXPECT_EQ(profile.ranks_per_node, 2);
  EXPECT_TRUE(profile.is_cpu());
  for (const DType type : {DType::f32, DType::bf16})
    EXPECT_TRUE(std::any_of(profile.products.begin(), profile.products.end(),
                            [type](const auto& product) { return product.dtype == type; }));
  EXPECT_GT(profile.node.bytes_per_s, 0);
  EXPECT_EQ(profile.collectives.size(), 3u);
  EXPECT_FALSE(profile.attentions.empty());
  EXPECT_NE(profile.loop_rate("update", false), profile.bytes_per_s) << "it is measured";

  const std::string task = " --model tiny --global-batch-size 8 --cluster 2x" + file();
  const OutcomeApart tried = plan(task + " --try 2 --mpirun '" + mpirun() + "'");
  ASSERT_EQ(tried.exit_code, 0) << tried.errors;
  EXPECT_THAT(as_one_line(tried.output), HasSubstr("| profile: tried"));
  EXPECT_THAT(as_one_line(tried.output), HasSubstr("predicted measured"));
  EXPECT_THAT(tried.output, HasSubstr("\nmpirun -np 2 train_gpt --model tiny"));
  EXPECT_THAT(tried.output, HasSubstr("--device cpu"));
  EXPECT_THAT(tried.errors, HasSubstr("trying 2 of 2: "));

  const OutcomeApart other = plan(" --model tiny --global-batch-size 8 --cluster 4x" + file());
  EXPECT_EQ(other.exit_code, 0);
  EXPECT_THAT(as_one_line(other.output),
              HasSubstr("| profile: calibrated with the model's shapes"));
  EXPECT_THAT(other.errors, HasSubstr("was calibrated with 2 ranks on a node, not 4"));
}

/// An mpirun that ends once its first line has reached the output of `trireme plan`.
TEST_F(Calibrated, ProgressIsShownAtOnce) {
  const std::string script = folder_ / "mpirun";
  std::ofstream(script) << "#!/bin/sh\necho '   1 s  products'\necho other\n"
                           "for i in $(seq 600); do\n"
                           "  grep -q products "
                        << folder_ / "out"
                        << " && exit 0\n"
                           "  sleep 0.05\ndone\nexit 1\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const OutcomeApart shown = plan("--calibrate " + file() + " --ranks 2 --mpirun " + script);
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  EXPECT_EQ(shown.output, "   1 s  products\n");
}

TEST_F(Calibrated, MistakesAreOneLineEach) {
  const std::pair<std::string, const char*> wrong[] = {
      {"--calibrate " + file(), "trireme: --ranks is missing: --calibrate measures with as many"},
      {"--calibrate " + file() + " --ranks 2 --cluster 8xH100",
       "trireme: --cluster does not go with --calibrate"},
      {"--calibrate " + file() + "/cpu.json --ranks 2", "cpu.json: there is no directory "},
      {"--calibrate " + file() + " --ranks 2 --mpirun missing-mpirun",
       "trireme: --mpirun 'missing-mpirun': there is no such program"},
      {"--cluster 8xH100 --model tiny --global-batch-size 8 -- --bf16",
       "trireme: words behind -- are options of train_gpt for --calibrate"},
      {"--cluster 8xmissing.json --model tiny --global-batch-size 8",
       "'missing.json' is not known"},
  };
  for (const auto& [words, message] : wrong) {
    const OutcomeApart found = plan(words);
    EXPECT_EQ(found.exit_code, 64) << words;
    EXPECT_THAT(found.errors, HasSubstr(message)) << words;
    EXPECT_EQ(std::count(found.errors.begin(), found.errors.end(), '\n'), 1) << found.errors;
  }
  const OutcomeApart refused = calibrate("-- --threads-per-rank 0");
  EXPECT_EQ(refused.exit_code, 64);
  EXPECT_THAT(refused.errors, HasSubstr("--threads-per-rank 0"));
}

}  // namespace
}  // namespace trireme::test
