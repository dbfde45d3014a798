// What `trireme checkpoint` shows, compares and plans to prune.
#include "runtime/store/inspect/inspect.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using Kind = TensorDifference::Kind;
using Cut = ToyLayout::Cut;

class Inspect : public testing::Test {
 protected:
  std::string root() const { return folder_ / "run"; }
  /// Commits `state` twice, in different layouts, and compares.
  StepDiff diff(const ToyState& a, const ToyState& b, const DiffOptions& options = {}) const {
    const std::string left = commit_toy(folder_ / "a", 120, a, {Cut::rows, 2});
    const std::string right = commit_toy(folder_ / "b", 120, b, {Cut::columns, 3});
    return diff_steps(open_step(left), open_step(right), options);
  }
  ScratchDirectory folder_;
};

TEST(Readable, AgesCountFromTheTimeOfTheManifest) {
  EXPECT_EQ(age_s("1970-01-02T00:00:01Z", 86400 + 61), 60);
  EXPECT_EQ(age_s("2026-11-21T04:12:28Z", 1795234348), 0);
  EXPECT_EQ(age_s("2026-13-21T04:12:28Z", 0), std::nullopt);
  EXPECT_EQ(age_s("2026-11-21T04:12:28Z, about", 0), std::nullopt);
  EXPECT_EQ(age_s("yesterday", 0), std::nullopt);
  EXPECT_EQ(readable_age(59), "59 s");
  EXPECT_EQ(readable_age(11520), "3 h 12 min");
  EXPECT_EQ(readable_age(2 * 86400 + 3600), "2 d 1 h");
  EXPECT_EQ(readable_age(-1), "in the future");
}

TEST_F(Inspect, APathNamesARunOrAStep) {
  commit_toy(root(), 40, {});
  const std::string path = commit_toy(root(), 120, {});
  const auto numbers = [&](const std::string& from, Index step) {
    std::vector<Index> found;
    for (const CommittedStep& each : find_steps(from, step)) found.push_back(each.step);
    return found;
  };
  EXPECT_THAT(numbers(root(), -1), ElementsAre(120, 40));
  EXPECT_THAT(numbers(root(), 40), ElementsAre(40));
  EXPECT_THAT(numbers(path + "/", -1), ElementsAre(120));
  EXPECT_EQ(message_of([&] { find_steps(root(), 7); }),
            root() + " holds no step 7; it holds 120, 40");
  EXPECT_THAT(message_of([&] { find_steps(path, 40); }), HasSubstr("is step 120, not 40"));
  EXPECT_THAT(message_of([&] { find_steps(folder_ / "none", -1); }),
              HasSubstr("none: no such directory"));
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_THAT(message_of([&] { find_steps(folder_ / "empty", -1); }),
              HasSubstr("holds no committed step"));
}

TEST_F(Inspect, ACopyOfAStepUnderAnyNameIsAStep) {
  std::filesystem::copy(commit_toy(root(), 120, {}), folder_ / "best");
  EXPECT_EQ(find_steps(folder_ / "best", -1).front().step, 120);
}

TEST_F(Inspect, ARunIsSummarized) {
  commit_toy(root(), 40, {}, {Cut::rows, 3});
  const std::string newest = commit_toy(root(), 120, {});
  for (const char* left :
       {"step-000160.tmp-dead", "step-000200.aside-toy", "step-000020.deleted-toy", "logs"})
    std::filesystem::create_directory(root() + "/" + left);
  std::filesystem::resize_file(newest + "/" + shard_name(0), 100);

  const RunSummary run = summarize_run(root());
  ASSERT_THAT(run.steps, SizeIs(2));
  EXPECT_THAT(run.steps[0].problem, HasSubstr("shard-00000.h5"));
  EXPECT_EQ(run.steps[1].problem, "");
  EXPECT_EQ(run.steps[1].shards, 3);
  EXPECT_EQ(run.steps[1].layout, "3 ranks");
  EXPECT_FALSE(run.holds());
  EXPECT_THAT(run.unfinished, ElementsAre("step-000160.tmp-dead"));
  EXPECT_THAT(run.set_aside, ElementsAre("step-000200.aside-toy"));
  EXPECT_THAT(run.cut_off, ElementsAre("step-000020.deleted-toy"));
  EXPECT_THAT(to_text(run, 0),
              AllOf(HasSubstr("2 committed steps"), HasSubstr("3 ranks"), HasSubstr("BAD"),
                    HasSubstr("half deleted or replaced: step-000020")));
  EXPECT_THAT(message_of([&] { summarize_run(newest); }), HasSubstr("is one step"));
}

TEST_F(Inspect, AListOfStepsHas80Columns) {
  StepSummary step;
  step.step = 1'234'567;
  step.bytes = Index{1023} << 40;
  step.created = "2026-11-28T14:47:00Z";
  step.run = "20261128154042-27890-a45b";
  step.layout = "pipeline 16 x data 128 x tensor 8 = 16384 ranks, distributed optimizer";
  step.shards = 16384;
  step.verified = "replicas";
  RunSummary run;
  run.root = "run";
  run.steps = {step, step, step};
  run.steps[1].step = 1'234'467;
  run.steps[2].step = 367;
  run.steps[2].layout = "3 ranks";
  const std::string text = to_text(run, 2'000'000'000);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(text, HasSubstr("  1234567  2026-11-28 14:47  "));
  EXPECT_THAT(
      text,
      HasSubstr("\nsteps 1234567 to 1234467: run 20261128154042-27890-a45b\n  pipeline 16 x"));
  EXPECT_THAT(text, HasSubstr("\nstep 367: run 20261128154042-27890-a45b\n  3 ranks\n"));
}

TEST_F(Inspect, TheBytesOfAStepAreThoseOfAllItsFiles) {
  const std::string path = commit_toy(root(), 120, {});
  Index bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    bytes += static_cast<Index>(entry.file_size());
  EXPECT_EQ(summarize_run(root()).bytes(), bytes);
}

TEST_F(Inspect, TotalsAreSumsOverTheGroupsOfNames) {
  const OpenedStep step = open_step(commit_toy(root(), 120, {}, {Cut::rows, 2}));
  std::vector<std::string> lines;
  for (const TensorTotal& t : totals_of(step.manifest))
    lines.push_back(str(t.group, ' ', t.tensors, ' ', t.elements, ' ', t.bytes));
  EXPECT_THAT(lines, ElementsAre("optimizer 1 222 888", "parameters 2 229 916", "state 1 1 8",
                                 "all 4 452 1812"));
  EXPECT_THAT(to_text(step, 0), AllOf(HasSubstr("parameters/wte"), HasSubstr("(37, 6)"),
                                      HasSubstr("--lr"), HasSubstr("shard-00001.h5")));
}

TEST_F(Inspect, EveryProblemOfAStepIsALine) {
  const std::string path = commit_toy(root(), 120, {}, {Cut::rows, 4});
  EXPECT_THAT(step_problems(path, 2), IsEmpty());
  const Manifest manifest = open_step(path).manifest;
  const Manifest::Stored& piece = manifest.find("parameters/wte")->pieces[1];
  flip_bit(path + "/" + shard_name(1), piece.offset);
  std::filesystem::resize_file(path + "/" + shard_name(2), 100);
  std::filesystem::remove(path + "/" + shard_name(3));
  std::ofstream(path + "/extra") << "x";
  EXPECT_THAT(step_problems(path, 2),
              ElementsAre(AllOf(HasSubstr("shard-00001.h5: "), HasSubstr("parameters/wte")),
                          HasSubstr("shard-00002.h5: "), HasSubstr("shard-00003.h5: "),
                          HasSubstr("extra: ")));
}

TEST_F(Inspect, AManifestThatDoesNotHoldIsTheOnlyProblem) {
  const std::string path = commit_toy(root(), 120, {});
  flip_bit(path + "/" + manifest_name, 30);
  EXPECT_THAT(step_problems(path, 1),
              ElementsAre(StartsWith("manifest.json: the manifest is damaged")));
}

TEST_F(Inspect, AStepUnderTheNameOfAnotherIsAProblem) {
  const std::string path = commit_toy(root(), 120, {});
  std::filesystem::rename(path, root() + "/" + step_name(200));
  EXPECT_THAT(step_problems(root() + "/" + step_name(200), 1),
              ElementsAre("manifest.json: is of step 120"));
}

// Both lie under a checksum that holds, so only HDF5's own view of the shard shows it.
TEST_F(Inspect, AManifestThatExchangesTensorsIsFoundByTheStructure) {
  Manifest manifest = write_toy(root(), 120, {}, {});
  std::swap(manifest.tensors[0].pieces[0].offset, manifest.tensors[2].pieces[0].offset);
  commit_step(root(), manifest);
  EXPECT_THAT(step_problems(root() + "/" + step_name(120), 1),
              ElementsAre(HasSubstr("shard-00000.h5: ")));
}

TEST_F(Inspect, AStateIsEqualToItselfInAnotherLayout) {
  const StepDiff found = diff({}, {});
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.tensors_compared, 4);
  EXPECT_EQ(found.bytes_compared, 1812);
  ASSERT_THAT(found.facts, SizeIs(1));
  EXPECT_EQ(found.facts[0].group + found.facts[0].name, "options--tp");
}

TEST_F(Inspect, ADifferenceHasItsIndexAndBothValues) {
  ToyState changed;
  changed["parameters/wte"].at<float>(13 * 6 + 4) += 0.25F;
  changed["parameters/wte"].at<float>(20 * 6) -= 3;
  const StepDiff found = diff({}, changed);
  ASSERT_THAT(found.tensors, SizeIs(1));
  const TensorDifference& t = found.tensors[0];
  EXPECT_EQ(t.name, "parameters/wte");
  EXPECT_EQ(t.kind, Kind::contents);
  EXPECT_EQ(t.first, (Shape{13, 4}));
  EXPECT_EQ(t.a.value, "42");
  EXPECT_EQ(t.a.bits, "0x42280000");
  EXPECT_EQ(t.b.value, "42.25");
  EXPECT_EQ(t.b.bits, "0x42290000");
  EXPECT_EQ(t.differing, 2);
  EXPECT_EQ(t.elements, 222);
  EXPECT_EQ(t.not_finite, 0);
  EXPECT_EQ(t.largest_distance, 3);
}

TEST_F(Inspect, AToleranceIsAbsoluteBelowOneAndRelativeAbove) {
  ToyState a, b;
  for (ToyState* state : {&a, &b}) {
    (*state)["parameters/wte"].at<float>(7) = 1024;
    (*state)["parameters/h.0.bias"].at<float>(2) = 0.5F;
  }
  b["parameters/wte"].at<float>(7) += 1;                // 1 / 1025 of it
  b["parameters/h.0.bias"].at<float>(2) += 1.0F / 512;  // itself
  const auto beyond = [&](double tolerance) {
    std::filesystem::remove_all(folder_ / "a");
    std::filesystem::remove_all(folder_ / "b");
    DiffOptions options;
    options.tolerance = tolerance;
    return diff(a, b, options);
  };
  EXPECT_EQ(beyond(2e-3).beyond(), 0);
  EXPECT_FALSE(beyond(2e-3).equal());
  EXPECT_EQ(beyond(1e-3).beyond(), 1);
  EXPECT_EQ(beyond(9e-4).beyond(), 2);
  EXPECT_EQ(beyond(0).beyond(), 2);

  const StepDiff found = beyond(2e-3);
  ASSERT_NE(found.largest(), nullptr);
  EXPECT_EQ(found.largest()->name, "parameters/h.0.bias");
  EXPECT_NEAR(found.largest()->largest.difference, 1.0 / 512, 1e-12);
  EXPECT_EQ(found.largest()->largest.index, (Shape{2}));
  EXPECT_EQ(found.largest()->largest.a.value, "0.5");
  const OpenedStep step = open_step(commit_toy(root(), 120, {}));
  EXPECT_THAT(
      to_text(found, step, step),
      AllOf(HasSubstr("largest difference: 0.00195312 "), HasSubstr("in parameters/h.0.bias at "),
            HasSubstr("equal within the tolerance 0.002: 4 tensors")));
  EXPECT_THAT(to_text(beyond(1e-3), step, step),
              HasSubstr("different beyond the tolerance 0.001: 1 tensor"));
}

TEST_F(Inspect, NoToleranceAllowsOtherCountersInfinitiesOrForms) {
  DiffOptions options;
  options.tolerance = 1e9;
  const auto beyond = [&](const ToyState& changed) {
    std::filesystem::remove_all(folder_ / "a");
    std::filesystem::remove_all(folder_ / "b");
    return diff({}, changed, options).beyond();
  };
  ToyState counter, infinite, form;
  counter["state/step"].at<std::int64_t>(0) += 1;
  infinite["parameters/wte"].at<float>(0) = std::numeric_limits<float>::infinity();
  form.tensors[0] = toy_tensor<float>("optimizer/first_moment/wte", {6, 37}, 0, 0);
  for (const ToyState* changed : {&counter, &infinite, &form}) EXPECT_EQ(beyond(*changed), 1);
}

TEST_F(Inspect, ASmallWindowFindsTheSame) {
  ToyState changed;
  for (const Index i : {5, 100, 221}) changed["parameters/wte"].at<float>(i) += 1;
  changed["state/step"].at<std::int64_t>(0) = -1;
  const auto lines = [&](Index window_bytes) {
    std::filesystem::remove_all(folder_ / "a");
    std::filesystem::remove_all(folder_ / "b");
    DiffOptions options;
    options.window_bytes = window_bytes;
    options.threads = 2;
    std::string all;
    for (const TensorDifference& t : diff({}, changed, options).tensors)
      all += str(t.name, ' ', t.first, ' ', t.differing, ' ', t.largest_distance, '\n');
    return all;
  };
  const std::string expected = "parameters/wte (0, 5) 3 1\nstate/step () 1 121\n";
  EXPECT_EQ(lines(Index{64} << 20), expected);
  EXPECT_EQ(lines(1000), expected);
  EXPECT_EQ(lines(16), expected);
  EXPECT_EQ(lines(1), expected);  // one element at least
}

TEST_F(Inspect, ElementsAreEqualWhenTheirBitsAre) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ToyState a, b;
  for (ToyState* state : {&a, &b}) (*state)["parameters/h.0.bias"].at<float>(0) = nan;
  a["parameters/h.0.bias"].at<float>(1) = 0.0F;
  b["parameters/h.0.bias"].at<float>(1) = -0.0F;
  b["parameters/h.0.bias"].at<float>(2) = -nan;
  const StepDiff found = diff(a, b);
  ASSERT_THAT(found.tensors, SizeIs(1));
  EXPECT_EQ(found.tensors[0].differing, 2);
  EXPECT_EQ(found.tensors[0].not_finite, 1);
  EXPECT_EQ(found.tensors[0].largest_distance, 0);
  EXPECT_EQ(found.tensors[0].b.value, "-0");
}

TEST_F(Inspect, EveryElementTypeIsCompared) {
  const auto first_of = [&]<class T>(DType dtype, T a, T b) {
    std::filesystem::remove_all(folder_ / "a");
    std::filesystem::remove_all(folder_ / "b");
    ToyState left, right;
    for (const auto& [state, value] : {std::pair(&left, a), std::pair(&right, b)}) {
      ToyTensor tensor{"parameters/x", dtype, {3}, std::vector<std::byte>(3 * sizeof(T))};
      tensor.at<T>(2) = value;
      state->tensors = {tensor};
    }
    const TensorDifference t = diff(left, right).tensors.at(0);
    return str(t.first, ' ', t.a.value, ' ', t.a.bits, ' ', t.b.value, ' ', t.largest_distance);
  };
  EXPECT_EQ(first_of(DType::f64, 1.5, -1.0), "(2) 1.5 0x3ff8000000000000 -1 2.5");
  EXPECT_EQ(first_of(DType::bf16, std::uint16_t{0x3fc0}, std::uint16_t{0xbf80}),
            "(2) 1.5 0x3fc0 -1 2.5");
  EXPECT_EQ(first_of(DType::i32, 7, -2), "(2) 7 0x00000007 -2 9");
  EXPECT_EQ(first_of(DType::u8, std::uint8_t{255}, std::uint8_t{1}), "(2) 255 0xff 1 254");
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(first_of(DType::i64, large, large - 1),
            "(2) 9223372036854775807 0x7fffffffffffffff 9223372036854775806 1");
}

TEST_F(Inspect, NamesAndFormsAreComparedFirst) {
  ToyState b;
  b.tensors[0] = toy_tensor<float>("optimizer/first_moment/wte", {6, 37}, 0, 0);
  b.tensors[1] = toy_tensor<float>("parameters/h.1.bias", {7}, 0, 0);
  b.tensors[2] = toy_tensor<double>("parameters/wte", {37, 6}, 0, 0);
  const StepDiff found = diff({}, b);
  ASSERT_THAT(found.tensors, SizeIs(4));
  EXPECT_EQ(found.tensors[0].kind, Kind::form);
  EXPECT_EQ(found.tensors[0].form_b, "f32 (6, 37)");
  EXPECT_EQ(found.tensors[1].kind, Kind::only_in_a);
  EXPECT_EQ(found.tensors[2].kind, Kind::only_in_b);
  EXPECT_EQ(found.tensors[3].kind, Kind::form);
  EXPECT_EQ(found.tensors[3].form_b, "f64 (37, 6)");
  EXPECT_EQ(found.tensors_compared, 1);
}

TEST_F(Inspect, ParametersAloneCanBeCompared) {
  ToyState later;
  later["state/step"].at<std::int64_t>(0) = 121;
  later["optimizer/first_moment/wte"].at<float>(0) = 7;
  DiffOptions options;
  options.scope = DiffOptions::Scope::parameters;
  const StepDiff found = diff({}, later, options);
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.tensors_compared, 2);
}

TEST_F(Inspect, FactsThatOneSideLacksAreShown) {
  OpenedStep a = open_step(commit_toy(root(), 120, {})), b = a;
  a.manifest.identity = {{"model", "toy"}, {"vocabulary", "7"}};
  b.manifest.identity = {{"seed", "1"}, {"model", "real"}};
  std::vector<std::string> lines;
  for (const FactDifference& fact : diff_steps(a, b).facts)
    lines.push_back(str(fact.name, ' ', fact.a.value_or("-"), ' ', fact.b.value_or("-")));
  EXPECT_THAT(lines, ElementsAre("model toy real", "vocabulary 7 -", "seed - 1"));
}

TEST_F(Inspect, ADamagedSideIsNeverCompared) {
  const std::string path = commit_toy(root(), 120, {});
  const OpenedStep step = open_step(path);
  flip_bit(path + "/" + shard_name(0), step.manifest.find("parameters/wte")->pieces[0].offset);
  EXPECT_THAT(message_of([&] { diff_steps(step, step); }), HasSubstr("shard-00000.h5"));
}

TEST_F(Inspect, APlanToPruneIsWhatPruningDoes) {
  for (const Index step : {20, 40, 60, 70, 100}) commit_toy(root(), step, {});
  std::filesystem::remove(root() + "/" + step_name(100) + "/" + shard_name(0));
  std::filesystem::create_directory(root() + "/step-000120.tmp-dead");
  std::filesystem::create_directory(root() + "/step-000020.deleted-toy");
  const Index bytes = summarize_run(root()).bytes();
  const PrunePlan plan = plan_prune(root(), {1, 40});
  EXPECT_THAT(plan.deleted, ElementsAre(60, 20));
  EXPECT_THAT(plan.kept, ElementsAre(100, 70, 40));  // 100 does not hold, and does not count
  EXPECT_THAT(plan.damaged, ElementsAre(HasSubstr("step-000100/shard-00000.h5")));
  EXPECT_THAT(plan.leftovers, ElementsAre("step-000120.tmp-dead", "step-000020.deleted-toy"));

  EXPECT_EQ(prune_steps(root(), {1, 40}), plan.deleted);
  EXPECT_EQ(bytes - summarize_run(root()).bytes(), plan.bytes);
  EXPECT_THAT(clean_leftovers(root()), testing::UnorderedElementsAreArray(plan.leftovers));
}

TEST_F(Inspect, ShowsAndKeepsTheNewestStepThatWasVerifiedClean) {
  for (const Index step : {20, 40, 60, 80}) {
    Manifest manifest = write_toy(root(), step, {}, {});
    if (step <= 40) manifest.verified = "replicas";
    commit_step(root(), manifest);
  }
  const RunSummary run = summarize_run(root());
  EXPECT_EQ(run.steps[0].verified, "");
  EXPECT_EQ(run.steps[3].verified, "replicas");
  EXPECT_THAT(to_text(run, 0), AllOf(HasSubstr("verified"), HasSubstr("replicas  intact")));
  EXPECT_THAT(to_text(to_json(run, 0)), HasSubstr(R"("verified":"replicas")"));
  const PrunePlan plan = plan_prune(root(), {.keep_last = 1});
  EXPECT_THAT(plan.kept, ElementsAre(80, 40));
  EXPECT_EQ(prune_steps(root(), {.keep_last = 1}), plan.deleted);
}

TEST_F(Inspect, JsonHasWhatTheTextHas) {
  const OpenedStep step = open_step(commit_toy(root(), 120, {}));
  const Json shown = parse_json(to_text(to_json(step, 0)));
  EXPECT_EQ(std::get<Index>(shown.find("totals")->find("all")->find("bytes")->value), 1812);
  ToyState changed;
  changed["parameters/h.0.bias"].at<float>(3) = std::numeric_limits<float>::infinity();
  const StepDiff found = diff({}, changed);
  const Json diffed = parse_json(to_text(to_json(found, step, step)));
  const Json& tensor = std::get<Json::Array>(diffed.find("tensors")->value).at(0);
  EXPECT_EQ(std::get<std::string>(tensor.find("first")->find("b")->value), "inf");
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(tensor.find("largest_distance")->value));
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(tensor.find("largest")->value));
  EXPECT_FALSE(std::get<bool>(diffed.find("equal")->value));
  EXPECT_FALSE(std::get<bool>(diffed.find("within_tolerance")->value));
}

}  // namespace
}  // namespace trireme::test
