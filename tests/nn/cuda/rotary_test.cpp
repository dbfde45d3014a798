// The table of rotations on a GPU of the host emulation: there before the first step, and once for
// all layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/nn/nn.h"

#include "kernels/cuda/cuda_device.h"
#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

constexpr Index sequence = 6, rows = 2 * sequence, head = 8, columns = 4 * head;

RotaryTablePtr table() { return std::make_shared<const RotaryTable>(sequence, head, 100.0f); }

TEST(RotaryOnAGpu, FindsItsTableInTheMemoryOfTheGpu) {
  kernels::CudaDevice gpu(0, "");
  Graph graph;
  const RotaryTablePtr rotations = table();
  rotary(graph.input("x", {rows, columns}), rotations, 3);
  const Buffer memory = gpu.allocate(constant_bytes(graph));
  const auto stream = gpu.make_stream();
  write_constants(graph, memory.data(), *stream);
  std::vector<float> there(static_cast<std::size_t>(sequence * head)), expected = there;
  stream->copy(there.data(), memory.data(), rotations->bytes());
  stream->synchronize();
  rotations->write(reinterpret_cast<std::byte*>(expected.data()));
  EXPECT_EQ(there, expected);
}

Value turned(Graph& g, const RotaryTablePtr& rotations) {
  const Value x = g.parameter("x", {rows, columns}, replicated(), normal(1));
  const Value again = g.recompute([&] { return rotary(linear(x, "in", columns), rotations, 3); });
  return squared_error(rotary(again, rotations, 2), g.input("target", {rows, columns}));
}

TEST(RotaryOnAGpu, AgreesWithTheCpu) {
  std::vector<float> target = random_floats("target", rows * columns);
  RunOptions options{.inputs = {{"target", tensor_of(target, {rows, columns})}}};
  const auto trace = [rotations = table()](Graph& g) { return turned(g, rotations); };
  const GraphRun cpu = run_graph(trace, options);
  options.device = [] { return std::make_unique<kernels::CudaDevice>(0, ""); };
  const Difference d = difference(run_graph(trace, options), cpu);
  EXPECT_LT(d.loss, 1e-6);
  EXPECT_LT(d.gradients, 1e-5) << d.worst;
}

TEST(RotaryOnAGpu, IsRefusedWhereTheGraphWasPlannedForACpu) {
  std::vector<float> target = random_floats("target", rows * columns);
  RunOptions options{.inputs = {{"target", tensor_of(target, {rows, columns})}}};
  options.device = [] { return std::make_unique<kernels::CudaDevice>(0, ""); };
  const auto trace = [rotations = table()](Graph& g) {
    g.plan_for(cpu_traits());
    return turned(g, rotations);
  };
  EXPECT_THAT(
      message_of([&] { run_graph(trace, options); }),
      testing::ContainsRegex("planned for a CPU.*cannot run on a GPU of compute capability"));
}

}  // namespace
}  // namespace trireme
