// What can be trained on a cluster: presets with the time and cost of their training.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/models/transformer_config.h"

#include "runtime/layouts/report/preset_report.h"
#include "runtime/layouts/report/text.h"

namespace trireme::layouts {
namespace {

using testing::HasSubstr;

TEST(PresetPlans, AreOfAllPresetsWithTheirLeastNeedWhereNoneFits) {
  Question common;
  common.cluster = read_cluster("1x4090");
  set_price(common.cluster, "0.5");
  common.aim.pins = parse_pins("chunks=8 recompute=full");  // for a quick search
  const std::vector<PresetPlan> plans = plan_presets(common, 0, 1024);
  ASSERT_EQ(plans.size(), preset_names().size());
  for (const PresetPlan& plan : plans) {
    EXPECT_NE(plan.fits(), plan.least_need.has_value()) << plan.name;
    const auto parameters = static_cast<double>(plan.task->model().parameter_count());
    EXPECT_EQ(plan.question.tokens, 20 * parameters) << plan.name;
    EXPECT_EQ(plan.task->tokens_per_step(), Index{1} << 19) << plan.name;
    EXPECT_EQ(plan.fits(), parameters * 18 < 22 * static_cast<double>(Index{1} << 30)) << plan.name;
  }
  const std::string text = report(common, plans);
  EXPECT_THAT(text, HasSubstr("\ngpt2-124m "));
  EXPECT_THAT(text, HasSubstr("\ndo not fit  "));
  std::size_t begin = 0;
  for (std::size_t end; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    EXPECT_LE(columns_of(text.substr(begin, end - begin)), screen_width);
  }
  const Json json = to_json(common, plans);
  EXPECT_EQ(std::get<Json::Array>(json.find("presets")->value).size(), plans.size());
}

TEST(PresetPlans, TakeTheBatchTheLengthAndTheTokensThatAreGiven) {
  Question common;
  common.cluster = read_cluster("3x1x4090");
  common.aim.pins = parse_pins("chunks=8 recompute=full tp=1 pp=1 mb=1");
  common.tokens = 5e9;
  const std::vector<PresetPlan> plans = plan_presets(common, 12, 256);
  ASSERT_FALSE(plans.empty());
  for (const PresetPlan& plan : plans) {
    EXPECT_EQ(plan.question.tokens, 5e9);
    EXPECT_EQ(plan.task->tokens_per_step(), 12 * 256) << plan.name;
  }
  // Otherwise as many samples for each GPU.
  for (const PresetPlan& plan : plan_presets(common, 0, 1024))
    EXPECT_EQ(plan.task->options().global_batch_size, 513) << plan.name;
}

}  // namespace
}  // namespace trireme::layouts
