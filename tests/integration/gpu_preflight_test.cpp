// trireme preflight on emulated GPUs: products, memory, training steps and NCCL of each are in the
// report, and wrong bits are found. Its rates mean nothing here.
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "tests/support/emulated_gpu.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;

class GpuPreflight : public testing::Test {
 protected:
  Outcome run(const std::string& options, const std::string& variables = "") const {
    const std::string line = TRIREME_MPIRUN;
    const std::size_t begin = line.find("env ");
    const std::string environment = line.substr(begin, line.rfind(' ') - begin);
    return run_shell(on_emulated_gpus({}, "2") + environment +
                         " EMULATION_DEVICE_MB=128 TMPDIR=" + folder_.path() + " " + variables +
                         " " TRIREME_BIN_DIR "/trireme preflight --json " + report_ + " " + options,
                     folder_ / "log");
  }
  json report() const { return json::parse(read_text(report_)); }

  ScratchDirectory folder_;
  const std::string report_ = folder_ / "report.json";
};

TEST_F(GpuPreflight, LongMeasuresEachGpuAndNcclBetweenThem) {
  const Outcome outcome = run("--long --seconds 0.1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const json all = report();
  EXPECT_THAT(all["nodes"][0]["kind"].get<std::string>(),
              EndsWith(" cores, 2 x host emulation, compute capability 9.0"));
  ASSERT_EQ(all["gpus"].size(), 2U);
  for (const json& gpu : all["gpus"]) {
    EXPECT_EQ(gpu["kind"], "host emulation, compute capability 9.0");
    for (const char* figure : {"gpu_f32_gflops", "gpu_bf16_gflops", "gpu_copy_gb_per_s"})
      EXPECT_GT(gpu["figures"][figure], 0) << figure;
    for (const char* fact : {"product", "product bf16", "training"})
      EXPECT_EQ(gpu["facts"][fact], all["gpus"][0]["facts"][fact]) << fact;
    EXPECT_THAT(gpu["facts"]["memory tested"].get<std::string>(), EndsWith(" MiB"));
  }
  EXPECT_THAT(all["gpus"][1]["host"].get<std::string>(), EndsWith("/gpu1"));
  ASSERT_EQ(all["groups"].size(), 1U);
  EXPECT_EQ(all["groups"][0]["kind"], "in node");
  EXPECT_GT(all["groups"][0]["gb_per_s"], 0);
  // What it does is shown, once each.
  for (const char* check : {"products", "training steps", "memory of GPUs", "NCCL"})
    EXPECT_EQ(count(outcome.output, str(" s  ", check, "\n")), 1) << outcome.output;
}

TEST_F(GpuPreflight, ShortMeasuresTheSlowestGpuWithinTheProcessOfTheNode) {
  const Outcome outcome = run("--short", "TRIREME_NVML=" TRIREME_FAKE_NVML " FAKE_NVML=" +
                                             folder_.write("gpus", "gpus 2\n"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const json all = report();
  EXPECT_EQ(all["nodes"][0]["facts"]["gpus"], "2");
  EXPECT_EQ(all["nodes"][0]["facts"]["driver"], "fake 1.0");
  EXPECT_GT(all["nodes"][0]["figures"]["gpu_gemm_gflops"], 0);
  EXPECT_FALSE(all.contains("gpus"));
  EXPECT_FALSE(all.contains("groups"));
  EXPECT_EQ(count(outcome.output, " s  "), 0) << outcome.output;
}

TEST_F(GpuPreflight, WrongSumsOfNcclAreAFault) {
  const Outcome outcome = run("--long --seconds 0", "EMULATION_WRONG_SUMS=1");
  EXPECT_EQ(outcome.exit_code, 69) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr(" sums of NCCL over the group "));
}

}  // namespace
}  // namespace trireme::test
