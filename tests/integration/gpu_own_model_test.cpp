// A model of one's own on emulated GPUs: its metrics, and what it is asked after training, are
// those of the CPU, on every axis and in any legal order of streams.
#include <cmath>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/gpu_layouts.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

/// The metric of each step, then the two numbers of each output, of examples/mlp.cpp.
std::vector<double> numbers(const std::string& start, const std::string& options) {
  const ScratchDirectory folder;
  const std::string metrics = folder / "metrics.jsonl";
  const Outcome outcome =
      run_shell(start + TRIREME_BIN_DIR "/mlp --train-iters 3 --log-level info --metrics " +
                    metrics + " " + options,
                folder / "log");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::vector<double> all;
  std::istringstream steps(read_text(metrics)), lines(outcome.output);
  for (std::string line; std::getline(steps, line);)
    all.push_back(nlohmann::json::parse(line)["bias"].get<double>());
  for (std::string line; std::getline(lines, line);) {
    double first = 0, second = 0;
    if (std::sscanf(line.c_str(), "# [%*[^]]] wave %*d continues with %lf, %lf ...", &first,
                    &second) == 2)
      all.insert(all.end(), {first, second});
  }
  EXPECT_EQ(all.size(), 3u + 2 * 3) << outcome.output;
  return all;
}

void expect_near(const std::vector<double>& gpu, const std::vector<double>& cpu, double band) {
  ASSERT_EQ(gpu.size(), cpu.size());
  for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(gpu[i], cpu[i], band) << i;
}

TEST(GpuOwnModel, GivesTheMetricsAndOutputsOfTheCpu) {
  const std::vector<double> cpu = numbers("", "--device cpu --micro-batch-size 4");
  for (const auto& [ranks, options] : {std::pair(1, "--micro-batch-size 2"),
                                       {2, "--use-distributed-optimizer"},
                                       {2, "--tp 2"},
                                       {2, "--pp 2 --micro-batch-size 2"}}) {
    SCOPED_TRACE(options);
    for (const EmulatedOrder& order : {EmulatedOrder{"lazy", "reverse"}, {"random:1", "forward"}})
      expect_near(
          numbers(on_emulated_gpus(order) + mpirun(ranks), std::string("--device cuda ") + options),
          cpu, 1e-5);
  }
}

TEST(GpuOwnModel, GivesThoseOfTheCpuInBf16) {
  expect_near(numbers(on_emulated_gpus({"lazy", "forward"}) + mpirun(2),
                      "--device cuda --bf16 --pp 2 --micro-batch-size 2"),
              numbers("", "--device cpu --bf16 --micro-batch-size 2"), 0.05);
}

}  // namespace
}  // namespace trireme::test
