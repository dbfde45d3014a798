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

TEST(RotaryOnAGpu, HasItsTableOnceForAllLayers) {
  CudaDevice gpu(0, "");
  Graph graph;
  graph.plan_for(gpu);
  const RotaryTablePtr rotations = table();
  const Value x = graph.input("x", {rows, columns});
  rotary(rotary(x, rotations, 3), rotations, 3);
  EXPECT_EQ(graph.constant_bytes(), rotations->bytes());
  const void* there = graph.constant(rotations->data(), rotations->bytes());
  EXPECT_NE(there, rotations->data());
  std::vector<float> back(static_cast<std::size_t>(sequence * head));
  const auto stream = gpu.make_stream();
  stream->copy(back.data(), there, rotations->bytes());
  stream->synchronize();
  EXPECT_THAT(back, testing::ElementsAreArray(rotations->data(), back.size()));
}

TEST(RotaryOnAGpu, LeavesTheTableWhereItIsOnACpu) {
  const std::unique_ptr<Device> cpu = open_cpu();
  Graph graph;
  graph.plan_for(*cpu);
  const RotaryTablePtr rotations = table();
  rotary(graph.input("x", {rows, columns}), rotations, 3);
  EXPECT_EQ(graph.constant(rotations->data(), rotations->bytes()), rotations->data());
  EXPECT_EQ(graph.constant_bytes(), 0);
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
  options.device = [] { return std::make_unique<CudaDevice>(0, ""); };
  const Difference d = difference(run_graph(trace, options), cpu);
  EXPECT_LT(d.loss, 1e-6);
  EXPECT_LT(d.gradients, 1e-5) << d.worst;
}

TEST(RotaryOnAGpu, IsRefusedWhereTheGraphWasPlannedForACpu) {
  std::vector<float> target = random_floats("target", rows * columns);
  RunOptions options{.inputs = {{"target", tensor_of(target, {rows, columns})}}};
  options.device = [] { return std::make_unique<CudaDevice>(0, ""); };
  const auto trace = [rotations = table()](Graph& g) {
    Device& gpu = *g.device();
    const std::unique_ptr<Device> cpu = open_cpu();
    g.plan_for(*cpu);
    const Value loss = turned(g, rotations);
    g.plan_for(gpu);
    return loss;
  };
  EXPECT_THAT(message_of([&] { run_graph(trace, options); }),
              testing::HasSubstr("rotary's table is on a cpu device"));
}

}  // namespace
}  // namespace trireme
