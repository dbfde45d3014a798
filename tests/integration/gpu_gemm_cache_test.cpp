// --gemm-cache on emulated GPUs: choices are made once, before step 1, by timing; every later job
// takes them; and the message to the user when that cannot be.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/gpu_layouts.h"
#include "tests/support/message_of.h"

namespace trireme::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class GpuGemmCache : public testing::Test {
 protected:
  /// Trains three steps on `ranks` GPUs with the cache; the log is in output().
  TrainingRun train(int ranks, const std::string& cache, const std::string& options = "") {
    return harness_.train(
        on_emulated_gpus() + mpirun(ranks),
        gpu_gpt + "--device cuda --micro-batch-size 2 --gemm-cache " + cache + " " + options);
  }
  const std::string& output() const { return harness_.output(); }

  std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache_))
      if (entry.is_regular_file()) all.push_back(entry.path());
    return all;
  }

  TrainingHarness harness_{gpu_width};
  ScratchDirectory folder_;
  const std::string cache_ = folder_ / "cache";
};

void expect_same_bits(const TrainingRun& a, const TrainingRun& b) {
  const Difference difference = compare(a, b);
  EXPECT_EQ(difference.loss, 0);
  EXPECT_EQ(difference.gradient, 0) << difference.worst_gradient;
  EXPECT_EQ(difference.parameter, 0) << difference.worst_parameter;
}

TEST_F(GpuGemmCache, OfTheFirstJobIsTakenByTheNextOneBitForBit) {
  const TrainingRun first = train(1, cache_);
  EXPECT_THAT(output(),
              ContainsRegex("matrix products: [1-9][0-9]* chosen by timing, 0 as stored"));
  const std::vector<std::string> chosen = files();
  EXPECT_GT(chosen.size(), 5u);
  const TrainingRun second = train(1, cache_);
  EXPECT_THAT(output(),
              ContainsRegex("matrix products: 0 chosen by timing, [1-9][0-9]* as stored"));
  EXPECT_EQ(files(), chosen);
  expect_same_bits(first, second);
}

TEST_F(GpuGemmCache, IsOneForAllRanks) {
  for (const std::string layout : {"", "--tp 2", "--pp 2"}) {
    SCOPED_TRACE(layout);
    const std::string cache = cache_ + layout.substr(0, 4);
    const TrainingRun first = train(2, "'" + cache + "'", layout);
    EXPECT_THAT(output(), ContainsRegex("matrix products: [1-9][0-9]* chosen by timing"));
    const TrainingRun second = train(2, "'" + cache + "'", layout);
    EXPECT_THAT(output(), ContainsRegex("matrix products: 0 chosen by timing, [1-9]"));
    expect_same_bits(first, second);
  }
}

TEST_F(GpuGemmCache, ThatIsDamagedIsNamedAndTheJobContinues) {
  train(1, cache_);
  const std::string damaged = files().front();
  std::ofstream(damaged, std::ios::app) << "x";
  train(2, cache_);
  EXPECT_THAT(output(), HasSubstr("matrix products: GEMM cache: " + damaged + " is damaged"));
  EXPECT_THAT(output(), Not(ContainsRegex("is damaged.*is damaged"))) << "said once, for all ranks";
}

TEST_F(GpuGemmCache, ThatCannotBeWrittenIsRefusedBeforeWork) {
  const std::string message = message_of([&] { train(2, "/proc"); });
  EXPECT_THAT(message, HasSubstr("this configuration cannot run: 1 problem"));
  EXPECT_THAT(message, HasSubstr("--gemm-cache /proc: no file can be made there"));
  EXPECT_THAT(message, Not(HasSubstr("effective configuration"))) << "before work";
}

TEST_F(GpuGemmCache, IsNotUsedWithoutAGpuAndTheLogSaysSo) {
  harness_.train("env TRIREME_CUDA_MODULE=" + cache_ + "/missing.so ",
                 gpu_gpt + "--device auto --micro-batch-size 2 --gemm-cache " + cache_);
  EXPECT_THAT(output(), HasSubstr("--gemm-cache is not used either"));
  EXPECT_FALSE(std::filesystem::exists(cache_));
}

TEST_F(GpuGemmCache, IsOfferedWhereItIsNotAskedFor) {
  harness_.train(on_emulated_gpus(), gpu_gpt + "--device cuda --micro-batch-size 2");
  EXPECT_THAT(output(), HasSubstr("matrix products: cuBLASLt's first recommendations"));
  EXPECT_THAT(output(), HasSubstr("--gemm-cache DIR"));
}

}  // namespace
}  // namespace trireme::test
