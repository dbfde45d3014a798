// The sinks of records: the metrics file, and the lines of the log about steps.
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "runtime/train/sinks/metrics_file.h"
#include "runtime/train/sinks/reporter.h"
#include "runtime/train/sinks/sinks.h"
#include "tests/support/scratch_directory.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;

StepRecord example() {
  StepRecord m;
  m.step = 7;
  m.loss = 5.123456789012345;
  m.grad_norm = 0.1;
  m.lr = 3e-4;
  m.step_ms = 20;
  m.targets = 2048;
  return m;
}

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(MetricsFile, AppendsOneObjectALine) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsFile(path).take(example());
  {
    MetricsFile again(path);
    StepRecord m = example();
    m.step = 8;
    m.valid_loss = 4.5;
    m.valid_bits_per_byte = 1.5;
    again.take(m);
  }
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["step"], 7);
  EXPECT_EQ(lines[0]["loss"].get<double>(), 5.123456789012345);
  EXPECT_EQ(lines[0]["grad_norm"].get<double>(), 0.1);
  EXPECT_EQ(lines[0]["lr"].get<double>(), 3e-4);
  EXPECT_EQ(lines[0]["step_ms"].get<double>(), 20);
  EXPECT_NEAR(lines[0]["tokens_per_s"].get<double>(), 102400, 1e-6);
  EXPECT_EQ(lines[0]["skipped"], false);
  EXPECT_FALSE(lines[0].contains("valid_loss"));
  EXPECT_EQ(lines[1]["valid_loss"].get<double>(), 4.5);
  EXPECT_EQ(lines[1].value("valid_bits_per_byte", 0.0), 1.5);
}

TEST(MetricsFile, LinesOfEvaluationsHaveBitsPerByteWhereBytesAreKnown) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  EvaluationRecord m{{5, "corpus", 100, 3 * std::log(2.0)}};
  EXPECT_EQ(m.describe(), "loss 2.0794415, perplexity 8");
  MetricsFile(path).take(m);
  m.bytes_per_target = 2;
  EXPECT_EQ(m.describe(), "loss 2.0794415, perplexity 8, 1.5 bits per byte");
  MetricsFile(path).take(m);
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_FALSE(lines[0].contains("bits_per_byte"));
  EXPECT_DOUBLE_EQ(lines[1].value("bits_per_byte", 0.0), 1.5);
}

TEST(MetricsFile, LossBitsAreTheFp32Pattern) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsFile(path).take(example());
  const auto bits = std::stoul(lines_of(path).at(0)["loss_bits"].get<std::string>(), nullptr, 16);
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(bits)), 5.123456789012345f);
}

TEST(MetricsFile, WritesNumbersThatAreNotFiniteAsNull) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  StepRecord m = example();
  m.loss = std::numeric_limits<double>::quiet_NaN();
  m.grad_norm = std::numeric_limits<double>::infinity();
  m.skipped = true;
  MetricsFile(path).take(m);
  const auto line = lines_of(path).at(0);
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
  EXPECT_EQ(line["skipped"], true);
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// What MetricsFile writes for these steps.
std::string lines(std::initializer_list<Index> steps) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  {
    MetricsFile file(path);
    for (const Index step : steps) {
      StepRecord m = example();
      m.step = step;
      file.take(m);
    }
  }
  return read(path);
}

TEST(MetricsFile, RemovesATornLastLineOfEveryLength) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl", whole = lines({1, 2}), torn = lines({3});
  for (const std::string& before : {std::string(), whole})
    for (std::size_t length = 0; length + 1 < torn.size(); ++length) {
      write(path, before + torn.substr(0, length));
      const MetricsFile file(path);
      ASSERT_EQ(read(path), before) << length;
    }
}

TEST(MetricsFile, CompletesALastLineThatLacksOnlyItsEnd) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl", whole = lines({1, 2});
  write(path, whole.substr(0, whole.size() - 1));
  const MetricsFile file(path);
  EXPECT_EQ(read(path), whole);
}

TEST(MetricsFile, GoesBackToAStepOfTheLastJobOnly) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  const struct {
    std::string before;
    Index step;
    std::string after;
    Index removed;
  } cases[] = {
      {"", 5, "", 0},
      {lines({1, 2, 3}), 3, lines({1, 2, 3}), 0},
      {lines({1, 2, 3}), 9, lines({1, 2, 3}), 0},
      {lines({1, 2, 3}), 1, lines({1}), 2},
      {lines({1, 2, 3}), 0, "", 3},
      {lines({7, 8, 9, 1, 2, 3}), 2, lines({7, 8, 9, 1, 2}), 1},
      {lines({7, 8, 9, 1, 2, 3}), 0, lines({7, 8, 9}), 3},
      {lines({1, 2, 3, 3, 4}), 2, lines({1, 2, 3}), 2},
      {lines({1, 2, 3}) + "{\"step\":4,\"lo", 2, lines({1, 2}), 1},
  };
  for (const auto& [before, step, after, removed] : cases) {
    write(path, before);
    MetricsFile file(path);
    EXPECT_EQ(file.go_back_to(step), removed) << before << step;
    EXPECT_EQ(read(path), after) << before << step;
    StepRecord m = example();
    m.step = step + 1;
    file.take(m);
    EXPECT_EQ(read(path), after + lines({step + 1}));
  }
}

/// Of --skip-train, which may come between the steps of a run and its restart.
TEST(MetricsFile, PassesOverEvaluationsWhenItGoesBack) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  write(path, lines({1, 2, 3}));
  MetricsFile file(path);
  file.take(EvaluationRecord{{3, "a", 10, 2.5}});
  const std::string all = read(path);
  EXPECT_EQ(file.go_back_to(3), 0);
  EXPECT_EQ(read(path), all);
  EXPECT_EQ(file.go_back_to(1), 2);
  EXPECT_EQ(read(path), lines({1}));
}

TEST(MetricsFile, GoesBackOverManyChunksOfAFile) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl";
  constexpr Index steps = 5000;
  std::string first;
  {
    MetricsFile file(path);
    for (Index step = 1; step <= steps; ++step) {
      StepRecord m = example();
      m.step = step;
      file.take(m);
      if (step == 100) first = read(path);
    }
  }
  MetricsFile file(path);
  EXPECT_EQ(file.go_back_to(100), steps - 100);
  EXPECT_EQ(read(path), first);
}

TEST(MetricsFile, LeavesWhatIsNotMetricsAloneAndSaysSo) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl", good = lines({1});
  const std::string crlf = good.substr(0, good.size() - 1) + "\r\n";
  const std::vector<std::string> foreign{"my notes",
                                         "my notes\n",
                                         "\n",
                                         good + "\n",
                                         good + "}\n",
                                         crlf,
                                         crlf + crlf,
                                         crlf + "{\"st",
                                         good + "{\"stop\":1",
                                         "{\"loss\":1}\n",
                                         "{\"step\":1}\n",
                                         "{\"step\":x,}\n",
                                         good.substr(0, 20) + good,
                                         "{\"step\":2," + std::string(5000, ' '),
                                         std::string(100000, 'x'),
                                         std::string(3, '\0')};
  for (const std::string& text : foreign) {
    write(path, text);
    try {
      MetricsFile file(path);
      FAIL() << "took it for metrics: " << text.substr(0, 80);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("--metrics " + path + ": what is at byte "));
    }
    EXPECT_EQ(read(path), text);
  }
}

TEST(MetricsFile, RemovesNothingWhenALineInBetweenIsForeign) {
  const ScratchDirectory folder;
  const std::string path = folder / "metrics.jsonl", text = lines({1}) + "a note\n" + lines({2, 3});
  write(path, text);
  MetricsFile file(path);
  EXPECT_EQ(file.go_back_to(2), 1);
  try {
    file.go_back_to(0);
    FAIL() << "removed a note";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(str("at byte ", lines({1}).size())));
    EXPECT_THAT(error.what(), HasSubstr("'a note'"));
  }
  EXPECT_EQ(read(path), lines({1}) + "a note\n" + lines({2}));
}

TEST(MetricsFile, SaysWhyItCannotBeWritten) {
  const ScratchDirectory folder;
  EXPECT_EQ(message_of(folder, [&] { MetricsFile(folder / "missing/metrics.jsonl"); }),
            "--metrics missing/metrics.jsonl: there is no directory missing");
}

TEST(MetricsFile, AFullFileSystemIsAnError) {
  MetricsFile full("/dev/full");
  EXPECT_THROW(full.take(example()), Error);
}

Reporter reporter_of_three_steps(const Log& log) {
  Reporter reporter(log, 100);
  testing::internal::CaptureStdout();
  reporter.begin({0, 3});
  testing::internal::GetCapturedStdout();
  return reporter;
}

TEST(Reporter, PrintsOneLineAnIntervalWithMeansOverIt) {
  const Log log(0, LogLevel::info);
  Reporter reporter(log, 2);
  testing::internal::CaptureStdout();
  reporter.begin({0, 4, DType::f32, 1e8, 2e10});
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("  GEMM "));
  testing::internal::CaptureStdout();
  for (Index i = 1; i <= 3; ++i) {
    StepRecord m = example();
    m.step = i;
    m.step_ms = 10.0 * static_cast<double>(i);
    reporter.take(m);
  }
  // Step 2 ends an interval of 10 and 20 ms: 4096 tokens in 30 ms; 0.2 GFLOP in 30 ms = 6.67
  // GFLOP/s of 20. 136.5 GFLOP/s of 20.
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "       2   5.123457 1.0000e-01 3.0000e-04    15.0   136533  33.3   0:00:00\n");
}

TEST(Reporter, ProgressFitsItsTerminal) {
  const auto shown = [](int columns, Index step = 10000, Index steps = 20000) {
    std::array<char, 128> line{};
    return std::string(show_progress(line, columns, step, steps, 2.4433, 3723));
  };
  EXPECT_EQ(shown(60), "[=========         ] 10000/20000  loss 2.4433  left 1:02:03");
  EXPECT_EQ(shown(51), "10000/20000  loss 2.4433  left 1:02:03");
  EXPECT_EQ(shown(30), "10000/20000  loss 2.4433  lef");
  EXPECT_EQ(shown(1), "");
  EXPECT_EQ(shown(200, 7, 7).substr(0, 42), "[" + std::string(40, '=') + "]");
  for (int columns = 1; columns < 300; ++columns)
    for (const Index step : {Index{1}, Index{9999}, Index{1} << 40})
      EXPECT_LT(shown(columns, step, Index{1} << 40).size(), static_cast<std::size_t>(columns));
}

TEST(Reporter, AlwaysPrintsSkippedStepsEvaluationsAndTheLast) {
  const Log log(0, LogLevel::info);
  Reporter reporter = reporter_of_three_steps(log);
  testing::internal::CaptureStdout();
  StepRecord m = example();
  m.step = 1;
  m.skipped = true;
  reporter.take(m);
  m.step = 2;
  m.skipped = false;
  m.valid_loss = 2.5;
  reporter.take(m);
  m.step = 3;
  m.valid_loss.reset();
  reporter.take(m);
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_THAT(out, HasSubstr("skipped: gradients are not finite\n"));
  EXPECT_THAT(out, HasSubstr("  valid 2.500000\n"));
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 3);
}

std::string line_of_skipped_step(double loss, double grad_norm) {
  const Log log(0, LogLevel::info);
  Reporter reporter = reporter_of_three_steps(log);
  StepRecord m = example();
  m.skipped = true;
  m.loss = loss;
  m.grad_norm = grad_norm;
  testing::internal::CaptureStdout();
  reporter.take(m);
  return testing::internal::GetCapturedStdout();
}

TEST(Reporter, SaysWhetherALossOrOnlyTheGradientNormIsNotFinite) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  const std::string overflowed = "the gradient norm overflowed, though the loss is finite\n";
  EXPECT_THAT(line_of_skipped_step(2.5, infinity), HasSubstr("skipped: " + overflowed));
  for (const auto& [loss, norm] : {std::pair{nan, nan}, {infinity, infinity}, {2.5, nan}})
    EXPECT_THAT(line_of_skipped_step(loss, norm), HasSubstr("skipped: gradients are not finite\n"));
}

TEST(Reporter, PrintsNanWithoutASign) {
  const double negative = -std::numeric_limits<double>::quiet_NaN();
  const std::string line = line_of_skipped_step(negative, negative);
  EXPECT_THAT(line, HasSubstr(" nan "));
  EXPECT_THAT(line, testing::Not(HasSubstr("-nan")));
}

std::string said_of(const SaveRecord& save) {
  const Log log(0, LogLevel::info);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Reporter(log, 1).take(save);
  const std::string out = testing::internal::GetCapturedStdout(),
                    warnings = testing::internal::GetCapturedStderr();
  return (out.empty() ? "" : out.substr(out.find("] ") + 1)) + warnings;  // without the time
}

TEST(Reporter, SaysHowASaveHasEnded) {
  SaveRecord save{20, "", 1.25, 2, 4, 0.5, 3'000'000, 1};
  EXPECT_EQ(said_of(save),
            " saved step 20: stall 1.2 ms (copy 1.50 GB/s), write 0.75 GB/s, 2.9 MiB over 1 rank, "
            "durable after 0.50 s; the first of this job\n");
  save.step_before = 10;
  save.after_that_s = 7.25;
  save.ranks = 2;
  EXPECT_THAT(said_of(save), HasSubstr(" over 2 ranks, durable after 0.50 s; last durable step 10, "
                                       "7.2 s older\n"));
  SaveRecord failed{30, "rank 1: the disk is full"};
  failed.failures = 1;
  EXPECT_EQ(said_of(failed),
            "trireme[rank 0] warning: step 30 is not saved: rank 1: the disk is full; training "
            "continues, without any checkpoint of this job\n");
  failed.step_before = 20;
  failed.failures = 2;
  EXPECT_THAT(said_of(failed), HasSubstr("training continues, the newest checkpoint is step 20; "
                                         "the last 2 saves have failed\n"));
}

/// run() prints the error with which a job ends.
TEST(Reporter, SaysEachNoteOnce) {
  const Log log(0, LogLevel::info);
  Reporter reporter(log, 1);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  for (const auto kind :
       {NoteRecord::Kind::loss_spike, NoteRecord::Kind::stopped, NoteRecord::Kind::diverged})
    reporter.take(NoteRecord{kind, 7, str("note ", static_cast<int>(kind))});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "trireme[rank 0] warning: note 0\n");
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::EndsWith("] note 1\n"));
}

}  // namespace
}  // namespace trireme::train
