// Predicted against measured, after 20 steps.
#include "runtime/train/layout/plan_comparison.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/comm/mesh.h"
#include "trireme/kernels/device.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;

TEST(PlanComparison, SaysByHowMuchTheyDiffer) {
  EXPECT_EQ(describe_comparison({0.100, Index{100} << 20}, 0.105, Index{90} << 20),
            "a step 100 ms predicted, 105 ms measured (median of steps 2 to 20 of this job): "
            "5 % more; memory of the largest rank 100.0 MiB predicted, 90.0 MiB measured: 10 % "
            "less");
  EXPECT_EQ(describe_comparison({2, 0}, 2.001, 0),
            "a step 2 s predicted, 2 s measured (median of steps 2 to 20 of this job): as "
            "predicted");
}

TEST(PlanComparison, IsLoggedOnceWithTheMedianWithoutTheFirstStep) {
  const std::unique_ptr<Mesh> mesh = make_self_mesh();
  const std::unique_ptr<Device> device = open_cpu();
  const std::unique_ptr<Stream> stream = device->make_stream();
  const Options options;
  const Log log(0, LogLevel::info);
  const Context context(options, *mesh, *stream, log);
  PlanComparison comparison({0.010, 1});
  testing::internal::CaptureStdout();
  comparison.add(context, 5000);
  for (int step = 2; step < 20; ++step) comparison.add(context, step < 8 ? 100 : 20);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  testing::internal::CaptureStdout();
  for (int step = 20; step < 40; ++step) comparison.add(context, 20);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, HasSubstr("plan: a step 10 ms predicted, 20 ms measured"));
  EXPECT_THAT(text, HasSubstr("100 % more; memory of the largest rank 1 B predicted, "));
  EXPECT_EQ(text.find("plan: "), text.rfind("plan: "));
}

TEST(ResidentBytes, GrowWithWhatIsWritten) {
  constexpr Index more = Index{64} << 20;
  const Index before = resident_bytes();
  EXPECT_GT(before, 0);
  const std::vector<char> memory(static_cast<std::size_t>(more), 1);
  EXPECT_EQ(memory.back(), 1);
  EXPECT_GE(resident_bytes(), before + more * 9 / 10);
}

}  // namespace
}  // namespace trireme::train
