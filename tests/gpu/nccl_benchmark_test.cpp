// gpu_nccl_benchmark on emulated GPUs: what it finds is right and complete, a wrong sum is seen,
// and what cannot be measured is one error. Its times mean nothing here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/core/dtype.h"

#include "tests/support/emulated_gpu.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class NcclBenchmark : public testing::Test {
 protected:
  /// `environment`: "NAME=value ..."; `sizes`: small ones.
  Outcome run(int ranks, const std::string& options = "", const std::string& environment = "",
              const std::string& devices = "8", const std::string& sizes = "-b 8 -e 8K -f 32") {
    const std::string start =
        ranks == 1 ? "" : TRIREME_MPIRUN " --timeout 100 -np " + std::to_string(ranks) + " ";
    return run_shell(on_emulated_gpus({}, devices) + environment + " " + start +
                         TRIREME_BIN_DIR "/gpu_nccl_benchmark -n 2 -w 1 " + sizes + " --json " +
                         file_ + " " + options,
                     folder_ / "log");
  }
  json found() const { return json::parse(read_text(file_)); }

  ScratchDirectory folder_;
  const std::string file_ = folder_ / "found.json";
};

int errors(const Outcome& outcome) {
  return count(outcome.output, "trireme error") + count(outcome.output, "cannot run");
}

/// Wrong elements of the rows of one operation, in and out of place.
Index wrong_of(const json& found, const std::string& operation) {
  Index wrong = 0;
  for (const json& row : found["rows"])
    for (const char* place : {"out_of_place", "in_place"})
      if (row["operation"] == operation && !row[place].is_null())
        wrong += row[place]["wrong"].get<Index>();
  return wrong;
}

void expect_row(const json& row, int ranks) {
  const std::string operation = row["operation"];
  const bool parts = operation == "all_gather" || operation == "reduce_scatter";
  const double share = (ranks - 1.0) / ranks;
  const double factor = operation == "all_reduce" ? 2 * share : parts ? share : 1;
  EXPECT_EQ(row["out_of_place"].is_null(), operation == "all_reduce" || operation == "broadcast");
  EXPECT_EQ(row["in_place"].is_null(), operation == "sendrecv");
  const Index element = row["type"] == "f32" ? 4 : 2;
  EXPECT_EQ(row["bytes"], row["count"].get<Index>() * element * (parts ? ranks : 1));
  for (const char* place : {"out_of_place", "in_place"}) {
    const json& measured = row[place];
    if (measured.is_null()) continue;
    EXPECT_EQ(measured["wrong"], 0);
    EXPECT_EQ(measured["repeats"], 5);
    EXPECT_LE(measured["us"]["min"], measured["us"]["median"]);
    EXPECT_LE(measured["us"]["median"], measured["us"]["max"]);
    const double rate = measured["algbw_gb_per_s"];
    EXPECT_NEAR(rate * measured["us"]["median"].get<double>(), row["bytes"].get<double>() * 1e-3,
                1e-9 * row["bytes"].get<double>());
    EXPECT_DOUBLE_EQ(measured["busbw_gb_per_s"], rate * factor);
  }
}

TEST_F(NcclBenchmark, EveryOperationAndTypeIsMeasuredAndRight) {
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    const Outcome outcome = run(ranks, "", "NCCL_DEBUG=WARN");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const json all = found();
    EXPECT_EQ(all["status"], "measured");
    EXPECT_EQ(all["ranks"], ranks);
    EXPECT_EQ(all["gpus"].size(), static_cast<std::size_t>(ranks));
    EXPECT_EQ(all["environment"]["NCCL_DEBUG"], "WARN");
    EXPECT_EQ(all["environment"].contains("NCCL_NVLS_ENABLE"), ranks > 1);
    EXPECT_THAT(all["nccl"].get<std::string>(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
    EXPECT_EQ(all["rows"].size(), 2u * 5u * 3u);  // types, operations, sizes
    for (const json& row : all["rows"]) expect_row(row, ranks);
    // The same as lines: one of the settings, the rows, one of the end.
    EXPECT_EQ(count(outcome.output, "\n{"), 2 * 5 * 3 + (outcome.output[0] == '{' ? 1 : 2));
  }
}

TEST_F(NcclBenchmark, AWrongSumIsSeen) {
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const Outcome outcome = run(ranks, "", "EMULATION_WRONG_SUMS=1");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(errors(outcome), 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("elements are wrong"));
    const json all = found();
    EXPECT_GT(all["wrong"], 0);
    EXPECT_GE(wrong_of(all, "all_reduce"), 2 * 3 * ranks);  // types, sizes
    EXPECT_EQ(wrong_of(all, "reduce_scatter"), 2 * 2 * 3 * ranks);
    for (const char* operation : {"all_gather", "sendrecv", "broadcast"})
      EXPECT_EQ(wrong_of(all, operation), 0) << operation;
  }
}

TEST_F(NcclBenchmark, GroupsOfALayoutAndRanksThatShareAGpuAreMeasured) {
  EXPECT_EQ(run(4, "--tp 2 --group tensor --operations all_reduce").exit_code, 0);
  EXPECT_EQ(found()["group"], "tensor");
  EXPECT_EQ(found()["ranks"], 2);
  const Outcome refused = run(2, "", "", "1");
  EXPECT_EQ(refused.exit_code, 64);
  EXPECT_THAT(refused.output, HasSubstr("--ranks-per-gpu 2"));
  const Outcome shared =
      run(2, "--ranks-per-gpu 2 --serialize-communication --types bf16", "", "1");
  EXPECT_EQ(shared.exit_code, 0) << shared.output;
  EXPECT_EQ(found()["gpus"].size(), 1u);
  EXPECT_EQ(found()["environment"]["NCCL_MAX_CTAS"], "2");
}

TEST_F(NcclBenchmark, ALimitEndsItBetweenSizes) {
  const Outcome outcome = run(2, "--limit-s 1e-6");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("stopped after --limit-s 1e-06, before all_reduce of 8 "
                                        "bytes in f32: 0 of 30 sizes are measured"));
  EXPECT_EQ(found()["status"], "stopped");
}

TEST_F(NcclBenchmark, WhatCannotRunIsOneError) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"--operations all_reduxe", "--operations all_reduxe: expected some of all_reduce"},
      {"--types f16", "--types f16: expected some of f32 bf16"},
      {"--repeats 4", "--repeats"},
      {"--group rows", "--group"},
  };
  for (const auto& [options, reason] : mistakes) {
    const Outcome outcome = run(1, options);
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_EQ(count(outcome.output, reason), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "\n"), 2) << outcome.output;
  }
  const Outcome swapped = run(2, "", "", "8", "-b 64K -e 8K");
  EXPECT_EQ(swapped.exit_code, 64);
  EXPECT_EQ(errors(swapped), 1);
  EXPECT_THAT(swapped.output, HasSubstr("--minbytes 65536 is more than --maxbytes 8192"));
}

TEST_F(NcclBenchmark, SizesThatDoNotFitAreRefused) {
  const Outcome outcome = run(2, "", "", "8", "-e 1T");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(errors(outcome), 1);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("--maxbytes 1099511627776: 2199023255552 bytes"),
                                    HasSubstr(" are free")));
}

TEST_F(NcclBenchmark, AFileThatCannotBeWrittenIsOneErrorAtTheStart) {
  std::filesystem::create_directory(file_);
  const Outcome outcome = run(2);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(errors(outcome), 1);
  EXPECT_THAT(outcome.output, HasSubstr("--json " + file_ + ": it cannot be written"));
  EXPECT_EQ(count(outcome.output, "all_reduce"), 0);
}

}  // namespace
}  // namespace trireme::test
