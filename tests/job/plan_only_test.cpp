// --plan-only: the plan of all ranks of a layout, printed by one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/job/layout/check_layout.h"
#include "runtime/job/layout/layout_mesh.h"

namespace trireme::job {
namespace {

using testing::HasSubstr;

struct Printed {
  int code;
  std::string lines, errors;
};

Printed print(const std::string& value, std::vector<const char*> words,
              const std::function<void(Context&)>& f) {
  words.insert(words.begin(), "program");
  words.push_back("--plan-only");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = print_layout(value, static_cast<int>(words.size()),
                                const_cast<char**>(words.data()), Application{}, f);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

/// A program whose Trainer describes the mesh and the device.
void train(Context& context) {
  EXPECT_TRUE(only_checks_layout(context));
  EXPECT_TRUE(context.options().plan_only);
  const char* device = planned_device(context).kind == DeviceKind::cuda ? "GPU" : "CPU";
  throw LayoutChecked{10, context.mesh().shape().describe() + " " + device + "\n"};
}

TEST(PlanOnly, PrintsThePlanOfOneDataRankWhenNoNumberIsGiven) {
  const Printed found = print("", {"--tp", "2", "--pp", "2"}, train);
  EXPECT_EQ(found.code, 0) << found.errors;
  EXPECT_EQ(found.lines, "pipeline 2 x data 1 x tensor 2 = 4 ranks CPU\n");
}

TEST(PlanOnly, TakesTheNumberOfRanksAndTheGpuThatItIsGiven) {
  EXPECT_EQ(print("8", {"--tp", "2"}, train).lines,
            "pipeline 1 x data 4 x tensor 2 = 8 ranks CPU\n");
  EXPECT_EQ(print("8,H100-SXM", {}, train).lines, "pipeline 1 x data 8 x tensor 1 = 8 ranks GPU\n");
}

TEST(PlanOnly, RefusesAsTheJobWouldWithOneLineForEachProblem) {
  const Printed found = print("6", {"--tp", "4"}, train);
  EXPECT_EQ(found.code, 64);
  EXPECT_EQ(found.lines, "");
  EXPECT_THAT(found.errors, HasSubstr("this configuration cannot run: 1 problem\n  - "
                                      "--tensor-model-parallel-size 4 x"));
}

TEST(PlanOnly, RefusesValuesThatAreNoRanksOrNoKnownGpu) {
  for (const char* value : {"0", "x", "-1", "4.5", ",H200", "9999999999"}) {
    const Printed found = print(value, {}, train);
    EXPECT_EQ(found.code, 64) << value;
    EXPECT_THAT(found.errors, HasSubstr("expected a number of ranks from 1 to 1048576")) << value;
  }
  EXPECT_THAT(print("8,H9", {}, train).errors, HasSubstr("the GPU 'H9' is not known"));
}

TEST(PlanOnly, NamesWhatTheProgramItselfRefusesAndAProgramWithoutATrainer) {
  EXPECT_THAT(print("", {}, [](Context&) { throw Error("no such model"); }).errors,
              HasSubstr("no such model"));
  EXPECT_THAT(print("", {}, [](Context&) {}).errors, HasSubstr("has no Trainer, which plans"));
}

TEST(PlanOnly, IsReadBeforeThereAreOptions) {
  const char* alone[] = {"program", "--plan-only"};
  const char* together[] = {"program", "--plan-only=8,H200"};
  EXPECT_EQ(layout_to_print(2, alone), "");
  EXPECT_EQ(layout_to_print(2, together), "8,H200");
  EXPECT_FALSE(layout_to_print(1, alone));
}

}  // namespace
}  // namespace trireme::job
