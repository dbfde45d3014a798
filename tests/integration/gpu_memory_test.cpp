// The memory of a GPU is planned to the last MiB: with as much as the plan says a job trains, with
// less it is refused before step 1; NCCL's own memory, which it takes when ranks first connect,
// among it.
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/checkpoint_jobs.h"
#include "tests/support/gpu_layouts.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

/// What rank 0 says when memory is planned, in MiB: of the rank that needs most, without what
/// libraries take of the host, and of its own GPU.
struct Planned {
  double largest, needed, free;
};
Planned planned(const std::string& output) {
  const std::regex line(
      "libraries about ([0-9.]+) MiB\\); largest rank ([0-9.]+) MiB; .*its GPU ([0-9.]+) MiB of "
      "([0-9.]+) MiB free");
  std::smatch found;
  require(std::regex_search(output, found, line), "no plan in:\n", output);
  return {std::stod(found[2]) - std::stod(found[1]), std::stod(found[3]), std::stod(found[4])};
}

class GpuMemoryJobs {
 protected:
  Outcome train(const GpuLayout& layout, int gpu_mib) {
    return jobs_.run(
        str("env EMULATION_DEVICE_MB=", gpu_mib, ' ', on_emulated_gpus(),
            jobs_.training({"", layout.ranks, layout.options}, "--device cuda --train-iters 2")));
  }
  CheckpointJobs jobs_{gpu_gpt +
                       "--num-layers 2 --hidden-size 32 --ffn-hidden-size 96 --vocab-size 8000 "
                       "--seq-length 32 "};
};

class GpuMemory : public GpuMemoryJobs, public testing::TestWithParam<GpuLayout> {};

TEST_P(GpuMemory, IsEnoughWhereThePlanFitsAndElseTheJobIsRefused) {
  SCOPED_TRACE(str(GetParam().ranks, " ranks, ", GetParam().options));
  constexpr int plenty = 900;
  const Outcome easy = train(GetParam(), plenty);
  ASSERT_EQ(easy.exit_code, 0) << easy.output;
  const Planned plan = planned(easy.output);
  const double taken = plenty - plan.free;  // by others, before the plan is looked at

  const Outcome refused = train(GetParam(), static_cast<int>(plan.needed + taken) - 1);
  EXPECT_EQ(refused.exit_code, 64) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("this configuration cannot run"));
  EXPECT_THAT(refused.output, HasSubstr("the plan needs "));
  const Outcome enough = train(GetParam(), static_cast<int>(plan.largest + taken) + 2);
  EXPECT_EQ(enough.exit_code, 0) << enough.output;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, GpuMemory,
    testing::Values(GpuLayout{1, "--micro-batch-size 4"}, GpuLayout{2, "--micro-batch-size 4"},
                    GpuLayout{
                        2, "--micro-batch-size 4 --use-distributed-optimizer --check-collectives"},
                    GpuLayout{2, "--micro-batch-size 4 --use-distributed-optimizer --bf16"},
                    GpuLayout{2, "--tp 2 --micro-batch-size 4 --sequence-parallel"},
                    GpuLayout{2, "--pp 2 --micro-batch-size 4 --serialize-communication"},
                    GpuLayout{4, "--tp 2 --micro-batch-size 4 --use-distributed-optimizer"}));

class FullGpu : public GpuMemoryJobs, public testing::Test {};

TEST_F(FullGpu, IsNamedWhereRanksCannotConnect) {
  const Outcome full = train({2, "--micro-batch-size 4"}, 6);
  EXPECT_EQ(full.exit_code, 1) << full.output;
  EXPECT_THAT(full.output, HasSubstr("ranks cannot be connected, with "));
  EXPECT_THAT(full.output, HasSubstr(" free on GPU "));
}

}  // namespace
}  // namespace trireme::test
