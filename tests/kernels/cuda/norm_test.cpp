#include <tuple>

#include "tests/kernels/cuda/twins.h"

namespace trireme::test {
namespace {

// One element, less than a warp, odd, several packs a thread, several slabs; too wide for shared memory.
const std::vector<std::pair<Index, Index>> shapes = {{1, 1},   {3, 5},    {5, 4},     {70, 33},
                                                     {67, 36}, {19, 260}, {41, 1024}, {2, 2052}};
const std::vector<Index> shifts = {0, 1};

Floats zeros(Index count) { return Floats(static_cast<std::size_t>(count)); }

void forward_agrees(NormKind kind, Index rows, Index channels, Index shift) {
  for (const bool residual : {false, true})
    expect_twins(
        [&](Bench& b) {
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
          p.sum = residual ? x : nullptr;
          p.y = b.put(zeros(count));
          p.mean = layer ? b.put(zeros(rows)) : nullptr;
          p.rstd = b.put(zeros(rows));
          b.kernels().norm.forward(b.stream(), p);
        },
        2e-6);
}

TEST(CudaNorm, ForwardAgreesWithAndWithoutTheResidual) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    for (const auto& [rows, channels] : shapes)
      for (const Index shift : shifts) forward_agrees(kind, rows, channels, shift);
}

TEST(CudaNorm, RowsThatDoNotFitInSharedMemoryAgree) {
  forward_agrees(NormKind::layer, 2, 12100, 0);
  forward_agrees(NormKind::rms, 2, 12101, 0);
}

enum class Wanted { everything, input, parameters };

void backward_agrees(NormKind kind, Index rows, Index channels, Index shift, Wanted wanted,
                     Write write, bool direct) {
  const bool layer = kind == NormKind::layer;
  expect_twins(
      [&](Bench& b) {
        const Index count = rows * channels;
        NormBackward p{};
        p.kind = kind;
        p.rows = rows;
        p.channels = channels;
        p.s = b.put(random_floats(count, "s", -1, 3), shift);
        p.weight = b.put(random_floats(channels, "weight", 0.5, 1.5));
        p.mean = layer ? b.put(random_floats(rows, "mean", 0.8f, 1.2f)) : nullptr;
        p.rstd = b.put(random_floats(rows, "rstd", 0.5, 1));
        p.dy = b.put(random_floats(count, "dy"));
        p.dx = wanted == Wanted::parameters ? nullptr : b.put(random_floats(count, "dx"));
        p.dsum = direct ? p.dx : nullptr;  // in place
        p.write_dx = write;
        if (wanted != Wanted::input) {
          p.dweight = b.put(random_floats(channels, "dweight"));
          p.dbias = layer ? b.put(random_floats(channels, "dbias")) : nullptr;
        }
        const Index bytes =
            b.kernels().norm.backward_workspace_bytes(b.stream().device(), rows, channels);
        const Buffer workspace = b.stream().device().allocate(bytes);
        p.workspace = workspace.data();
        b.kernels().norm.backward(b.stream(), p);
        b.stream().synchronize();
      },
      3e-6);
}

TEST(CudaNorm, AllGradientsAgree) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms})
    for (const auto& [rows, channels] : shapes)
      for (const Index shift : shifts)
        backward_agrees(kind, rows, channels, shift, Wanted::everything, Write::assign, true);
}

TEST(CudaNorm, GradientsThatAreNotWantedAreLeftOut) {
  for (const Write write : {Write::assign, Write::add})
    for (const bool direct : {false, true})
      backward_agrees(NormKind::layer, 70, 33, 0, Wanted::input, write, direct);
  backward_agrees(NormKind::layer, 70, 36, 0, Wanted::parameters, Write::assign, false);
  backward_agrees(NormKind::rms, 0, 36, 0, Wanted::everything, Write::assign, false);
}

TEST(CudaNorm, GradientsOfWideRowsAgree) {
  backward_agrees(NormKind::layer, 3, 16384, 0, Wanted::everything, Write::add, true);
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
