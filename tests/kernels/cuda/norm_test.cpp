// Norms and their gradients on a GPU agree with those on the CPU.
#include "trireme/kernels/norm.h"

#include <tuple>

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

// One element, less than a warp, odd, several packs a thread, several slabs; too wide for shared
// memory.
const std::vector<std::pair<Index, Index>> norm_shapes = {
    {1, 1}, {3, 5}, {5, 4}, {70, 33}, {67, 40}, {19, 264}, {41, 1024}, {2, 2056}};

Floats zeros(Index count) { return Floats(static_cast<std::size_t>(count)); }

struct Forward {
  NormKind kind;
  Index rows, channels, shift = 0;
  bool residual = false;
  DType dtype = DType::f32;
};

void run_forward(Bench& b, const Forward& problem) {
  const Index rows = problem.rows, channels = problem.channels, count = rows * channels;
  const DType dtype = problem.dtype;
  const bool layer = problem.kind == NormKind::layer;
  NormForward p{};
  p.kind = problem.kind;
  p.rows = rows;
  p.channels = channels;
  p.epsilon = 1e-5f;
  void* x = b.put(random_floats(count, "x", -1, 3), dtype, problem.shift);
  p.x = x;
  p.delta = problem.residual ? b.put(random_floats(count, "delta"), dtype) : nullptr;
  p.weight = b.put(random_floats(channels, "weight", 0.5, 1.5), dtype);
  p.bias = layer ? b.put(random_floats(channels, "bias"), dtype) : nullptr;
  p.sum = problem.residual ? x : nullptr;  // in place
  p.y = b.put(zeros(count), dtype);
  p.mean = layer ? b.put(zeros(rows)) : nullptr;
  p.rstd = b.put(zeros(rows));
  p.dtype = dtype;
  b.kernels().norm.forward(b.stream(), p);
}

TEST(CudaNorm, ForwardAgreesWithAndWithoutTheResidual) {
  for (const DType dtype : storage_types)
    for (const NormKind kind : {NormKind::layer, NormKind::rms})
      expect_agree(
          [&](Bench& b) {
            for (const auto& [rows, channels] : norm_shapes)
              for (const Index shift : shifts)
                for (const bool residual : {false, true})
                  run_forward(b, {kind, rows, channels, shift, residual, dtype});
          },
          2e-6);
}

TEST(CudaNorm, RowsThatDoNotFitInSharedMemoryAgree) {
  for (const auto& [dtype, channels] :
       {std::pair<DType, Index>{DType::f32, 12100}, {DType::bf16, 24080}})
    expect_agree(
        [&, dtype = dtype, channels = channels](Bench& b) {
          run_forward(b, {NormKind::layer, 2, channels, 0, true, dtype});
          run_forward(b, {NormKind::rms, 2, channels + 1, 0, false, dtype});
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
  DType dtype = DType::f32;
};

void run_backward(Bench& b, const Backward& problem) {
  const Index rows = problem.rows, channels = problem.channels, count = rows * channels;
  const DType dtype = problem.dtype;
  const bool layer = problem.kind == NormKind::layer;
  NormBackward p{};
  p.kind = problem.kind;
  p.rows = rows;
  p.channels = channels;
  p.s = b.put(random_floats(count, "s", -1, 3), dtype, problem.shift);
  p.weight = b.put(random_floats(channels, "weight", 0.5, 1.5), dtype);
  p.mean = layer ? b.put(random_floats(rows, "mean", 0.8f, 1.2f)) : nullptr;
  p.rstd = b.put(random_floats(rows, "rstd", 0.5, 1));
  p.dy = b.put(random_floats(count, "dy"), dtype);
  p.dx = problem.wanted == Wanted::parameters ? nullptr : b.put(random_floats(count, "dx"), dtype);
  p.dsum = problem.direct ? p.dx : nullptr;
  p.write_dx = problem.write;
  p.dtype = dtype;
  if (problem.wanted != Wanted::input) {
    p.dweight = b.put(random_floats(channels, "dweight"));
    p.dbias = layer ? b.put(random_floats(channels, "dbias")) : nullptr;
  }
  Device& device = b.stream().device();
  const Buffer workspace =
      device.allocate(norm_backward_workspace_bytes(device.traits(), rows, channels));
  p.workspace = workspace.data();
  b.kernels().norm.backward(b.stream(), p);
  b.stream().synchronize();
}

TEST(CudaNorm, AllGradientsAgree) {
  for (const DType dtype : storage_types)
    for (const NormKind kind : {NormKind::layer, NormKind::rms})
      expect_agree(
          [&](Bench& b) {
            for (const auto& [rows, channels] : norm_shapes)
              for (const Index shift : shifts)
                run_backward(b, {kind, rows, channels, shift, Wanted::everything, Write::assign,
                                 true, dtype});
          },
          3e-6);
}

TEST(CudaNorm, GradientsThatAreNotWantedAreLeftOut) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          for (const Write write : {Write::assign, Write::add})
            for (const bool direct : {false, true})
              run_backward(b, {NormKind::layer, 70, 33, 0, Wanted::input, write, direct, dtype});
          run_backward(
              b, {NormKind::layer, 70, 40, 0, Wanted::parameters, Write::assign, false, dtype});
          run_backward(b, {NormKind::rms, 0, 40});
        },
        3e-6);
}

TEST(CudaNorm, GradientsOfWideRowsAgree) {
  for (const DType dtype : storage_types)
    expect_agree(
        [&](Bench& b) {
          run_backward(b,
                       {NormKind::layer, 3, 16384, 0, Wanted::everything, Write::add, true, dtype});
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
