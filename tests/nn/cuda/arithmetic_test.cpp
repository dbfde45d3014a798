// Arithmetic on values in a file that a C++ compiler compiles, on a GPU of the host emulation.
#include <gtest/gtest.h>

#include "trireme/nn/nn.h"

#include "kernels/cuda/cuda_device.h"
#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

using Model = Value (*)(Value a, Value b);

GraphRun run_on(DeviceKind kind, DType compute, Model model) {
  RunOptions options{.inputs = {}, .compute = compute};
  if (kind == DeviceKind::cuda)
    options.device = [] { return std::make_unique<kernels::CudaDevice>(0, ""); };
  return run_graph(
      [model](Graph& g) {
        return model(g.parameter("a", {7, 33}, replicated(), normal(1)),
                     g.parameter("b", {7, 33}, replicated(), normal(1)));
      },
      options);
}

TEST(ArithmeticOnAGpu, AgreesWithTheCpu) {
  const Model models[] = {
      [](Value a, Value b) { return mean(a * sigmoid(b)); },
      [](Value a, Value b) { return sum((a - b) * (a - b)); },
      [](Value a, Value b) {
        const Value all = concat_columns({sigmoid(a) * b - 2.0f * a, exp(tanh(b)), relu(a), -b});
        return mean(all * all);
      }};
  for (const Model model : models)
    for (const DType compute : {DType::f32, DType::bf16}) {
      const Difference d = difference(run_on(DeviceKind::cuda, compute, model),
                                      run_on(DeviceKind::cpu, compute, model));
      EXPECT_LT(d.loss, compute == DType::f32 ? 1e-6 : 1e-3) << compute;
      EXPECT_LT(d.gradients, compute == DType::f32 ? 1e-6 : 5e-3) << compute << ' ' << d.worst;
    }
}

}  // namespace
}  // namespace trireme
