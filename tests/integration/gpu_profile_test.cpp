// --profile-ops on the emulated GPU: events on the stream, and what is queued on it.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/gpu_layouts.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

using nlohmann::json;

std::vector<double> losses(const std::vector<StepLine>& steps) {
  std::vector<double> all;
  for (const StepLine& step : steps) all.push_back(step.loss);
  return all;
}

TEST(GpuProfile, CountsWhatIsQueuedAndChangesNoLoss) {
  TrainingHarness harness("--hidden-size 32 --ffn-hidden-size 64 --train-iters 3 ");
  const ScratchDirectory folder;
  const std::string file = folder / "profile.json";
  const std::string options = gpu_gpt + "--micro-batch-size 4 --lm-head-chunks 2 --device cuda ";
  for (const std::string streams : {"eager", "lazy"}) {
    SCOPED_TRACE(streams);
    const std::string start = on_emulated_gpus({streams, "forward"});
    const auto plain = losses(harness.losses(start, options));
    const auto profiled =
        losses(harness.losses(start, options + "--profile-step 2 --profile-ops " + file));
    EXPECT_EQ(profiled, plain);
    const json found = json::parse(read_text(file));
    double ms = 0;
    for (const json& row : found["rows"]) {
      SCOPED_TRACE(row.dump());
      ms += row["ms"].get<double>();
      EXPECT_GE(row["ms"], 0);
      // Each call of an op puts at least a kernel on the stream.
      if (row["phase"] != "step") {
        ASSERT_TRUE(row["operations"].is_number());
        EXPECT_GE(row["operations"], row["calls"]);
      }
      if (row["op"] == "update" || row["op"] == "zero_gradients") {
        EXPECT_EQ(row["operations"], 1);
      }
    }
    EXPECT_NEAR(ms, found["device_ms"].get<double>(), 1e-6 * ms);
  }
}

}  // namespace
}  // namespace trireme::test
