// Ops made from two scalar functions on a GPU of the host emulation, compiled as nvcc compiles the
// .cu file of a user: they agree with the CPU.
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "tests/cuda_emulation/nvcc.h"
// First of all that use __CUDACC__.
#include "trireme/nn/nn.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

struct GatedValue {
  TRIREME_HD float operator()(float a, float b) const { return a / (1 + std::exp(-b)); }
};
struct GatedSlope {
  TRIREME_HD auto operator()(float a, float b) const {
    const float s = 1 / (1 + std::exp(-b));
    return Slopes{s, a * s * (1 - s)};
  }
};
struct HalfSquare {
  TRIREME_HD float operator()(float a, float b) const { return (a - b) * (a - b) / 2; }
};
struct HalfSquareSlope {
  TRIREME_HD float operator()(float a, float b) const { return a - b; }
};

GraphRun run_on(DeviceKind kind, Index rows, Index width, DType compute) {
  std::vector<float> y = random_floats("y", rows * width);
  RunOptions options{.inputs = {{"y", tensor_of(y, {rows, width})}}, .compute = compute};
  if (kind == DeviceKind::cuda)
    options.device = [] { return std::make_unique<kernels::CudaDevice>(0, ""); };
  return run_graph(
      [&](Graph& g) {
        const Value a = g.parameter("a", {rows, width}, replicated(), normal(1));
        const Value b = g.parameter("b", {rows, width}, replicated(), normal(1));
        const Value once = pointwise("gated", GatedValue{}, GatedSlope{}, a, b);
        const Value twice = pointwise("gated", GatedValue{}, GatedSlope{}, once, a);  // a adds
        return pointwise_sum("half_square", HalfSquare{}, HalfSquareSlope{}, twice,
                             g.input("y", {rows, width}));
      },
      options);
}

TEST(PointwiseOnAGpu, AgreesWithTheCpu) {
  for (const auto& [rows, width] : {std::pair<Index, Index>{1, 1}, {7, 33}, {130, 257}}) {
    const Difference f32 = difference(run_on(DeviceKind::cuda, rows, width, DType::f32),
                                      run_on(DeviceKind::cpu, rows, width, DType::f32));
    EXPECT_LT(f32.loss, 1e-6) << rows << " x " << width;
    EXPECT_LT(f32.gradients, 1e-6) << rows << " x " << width << ' ' << f32.worst;
    const Difference bf16 = difference(run_on(DeviceKind::cuda, rows, width, DType::bf16),
                                       run_on(DeviceKind::cpu, rows, width, DType::bf16));
    EXPECT_LT(bf16.loss, 1e-3) << rows << " x " << width;
    EXPECT_LT(bf16.gradients, 5e-3) << rows << " x " << width << ' ' << bf16.worst;
  }
}

}  // namespace
}  // namespace trireme
