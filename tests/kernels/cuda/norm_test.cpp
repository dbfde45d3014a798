#include <tuple>

#include "tests/kernels/cuda/twins.h"

namespace trireme::test {
namespace {

// One element, less than a warp, odd, several packs a thread, several slabs; too wide for shared memory.
const std::vector<std::pair<Index, Index>> shapes = {{1, 1},   {3, 5},    {5, 4},     {70, 33},
                                                     {67, 36}, {19, 260}, {41, 1024}, {2, 2052}};
const std::vector<Index> shifts = {0, 1};

Floats zeros(Index count) { return Floats(static_cast<std::size_t>(count)); }

void run_forward(Bench& b, NormKind kind, Index rows, Index channels, Index shift, bool residual) {
  const Index count = rows * channels;
  const bool layer = kind == NormKind::layer;
  NormForward p{};
  p.kind = kind;
  p.rows = rows;
  p.channels = channels;
  p.epsilon = 1e-5f;
  float* x = b.put(random_floats(count, "x", -1, 3), shift);
  p.x = x;
  p.delta = residual ? b.put(random_floats(count, "delta")) : nullptr;
  p.weight = b.put(random_floats(channels, "weight", 0.5, 1.5));
  p.bias = layer ? b.put(random_floats(channels, "bias")) : nullptr;
  p.sum = residual ? x : nullptr;  // in place
  p.y = b.put(zeros(count));
  p.mean = layer ? b.put(zeros(rows)) : nullptr;
  p.rstd = b.put(zeros(rows));
  b.kernels().norm.forward(b.stream(), p);
}

TEST(CudaNorm, ForwardAgreesWithAndWithoutTheResidual) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    expect_twins(
        [&](Bench& b) {
          for (const auto& [rows, channels] : shapes)
            for (const Index shift : shifts)
              for (const bool residual : {false, true})
                run_forward(b, kind, rows, channels, shift, residual);
        },
        2e-6);
}

TEST(CudaNorm, RowsThatDoNotFitInSharedMemoryAgree) {
  expect_twins(
      [](Bench& b) {
        run_forward(b, NormKind::layer, 2, 12100, 0, true);
        run_forward(b, NormKind::rms, 2, 12101, 0, false);
      },
      2e-6);
}

enum class Wanted { everything, input, parameters };

struct Backward {
  NormKind kind;
  Index rows, channels, shift = 0;
  Wanted wanted = Wanted::everything;
  Write write = Write::assign;
  bool direct = false;  // a gradient arrives at s directly, in place
};

void run_backward(Bench& b, const Backward& problem) {
  const Index rows = problem.rows, channels = problem.channels, count = rows * channels;
  const bool layer = problem.kind == NormKind::layer;
  NormBackward p{};
  p.kind = problem.kind;
  p.rows = rows;
  p.channels = channels;
  p.s = b.put(random_floats(count, "s", -1, 3), problem.shift);
  p.weight = b.put(random_floats(channels, "weight", 0.5, 1.5));
  p.mean = layer ? b.put(random_floats(rows, "mean", 0.8f, 1.2f)) : nullptr;
  p.rstd = b.put(random_floats(rows, "rstd", 0.5, 1));
  p.dy = b.put(random_floats(count, "dy"));
  p.dx = problem.wanted == Wanted::parameters ? nullptr : b.put(random_floats(count, "dx"));
  p.dsum = problem.direct ? p.dx : nullptr;
  p.write_dx = problem.write;
  if (problem.wanted != Wanted::input) {
    p.dweight = b.put(random_floats(channels, "dweight"));
    p.dbias = layer ? b.put(random_floats(channels, "dbias")) : nullptr;
  }
  Device& device = b.stream().device();
  const Buffer workspace =
      device.allocate(b.kernels().norm.backward_workspace_bytes(device, rows, channels));
  p.workspace = workspace.data();
  b.kernels().norm.backward(b.stream(), p);
  b.stream().synchronize();
}

TEST(CudaNorm, AllGradientsAgree) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    expect_twins(
        [&](Bench& b) {
          for (const auto& [rows, channels] : shapes)
            for (const Index shift : shifts)
              run_backward(b,
                           {kind, rows, channels, shift, Wanted::everything, Write::assign, true});
        },
        3e-6);
}

TEST(CudaNorm, GradientsThatAreNotWantedAreLeftOut) {
  expect_twins(
      [](Bench& b) {
        for (const Write write : {Write::assign, Write::add})
          for (const bool direct : {false, true})
            run_backward(b, {NormKind::layer, 70, 33, 0, Wanted::input, write, direct});
        run_backward(b, {NormKind::layer, 70, 36, 0, Wanted::parameters});
        run_backward(b, {NormKind::rms, 0, 36});
      },
      3e-6);
}

TEST(CudaNorm, GradientsOfWideRowsAgree) {
  expect_twins(
      [](Bench& b) {
        run_backward(b, {NormKind::layer, 3, 16384, 0, Wanted::everything, Write::add, true});
      },
      3e-6);
}

TEST(CudaNorm, WhatCannotBeIsRefused) {
  Bench b(open_gpu());
  EXPECT_THROW(b.kernels().norm.forward(b.stream(), NormForward{}), Error);  // no channels
  NormBackward p{};
  p.kind = NormKind::rms;
  p.rows = 1;
  p.channels = 100000;
  p.dx = b.put(zeros(1));
  EXPECT_THROW(b.kernels().norm.backward(b.stream(), p), Error);  // more than shared memory holds
}

}  // namespace
}  // namespace trireme::test
