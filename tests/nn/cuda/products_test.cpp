// The products of layers on a GPU of the host emulation: which kernels they are, that they are
// prepared before the first step, and that they agree with the CPU's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/nn/nn.h"

#include "kernels/cuda/cuda_device.h"
#include "tests/cuda_emulation/cublaslt.h"
#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using emulation::blas_behaviour;
using testing::Contains;
using testing::Not;

constexpr Index rows = 16, width = 16;

/// Every kind of product that layers have.
Value layers(Graph& g) {
  Value x = g.parameter("x", {rows, width}, replicated(), normal(1));
  x = x + linear(layer_norm(x, "norm"), "square", width);
  x = x + row_linear(column_linear(x, {{"a", 8}, {"b", 24}}), "row", width, {Bias::none});
  x = x + gelu_mlp(rms_norm(x, "middle"), {"up", 32}, {Bias::zeros, normal(0.3f)}, {"down", width},
                   {Bias::zeros, normal(0.3f)});
  x = x + g.recompute([&] { return gelu_row_linear(linear(x, "wide", 24), "narrow", width); });
  return squared_error(x, g.input("target", {rows, width}));
}

/// The last layer in pieces, the last of which is shorter.
Value head(Graph& g) {
  const Value x = g.parameter("x", {rows, width}, replicated(), normal(1));
  const Value weight = g.parameter("weight", {40, width}, shard_padded(0), normal(0.3f));
  return linear_cross_entropy(x, weight, g.input("targets", Spec({rows}, DType::i32)), 40, 3);
}

class LayersOnAGpu : public testing::TestWithParam<DType> {
 protected:
  LayersOnAGpu() { blas_behaviour() = {}; }
  ~LayersOnAGpu() override { blas_behaviour() = {}; }

  /// `cache`: a directory, or "".
  GraphRun run(const std::string& cache, const Trace& trace = layers) {
    RunOptions options = on_cpu();
    options.device = [&] { return std::make_unique<kernels::CudaDevice>(0, cache); };
    blas_behaviour().met.clear();
    options.on_prepared = [&](const Preparation& preparation) {
      preparation_ = preparation;
      blas_behaviour().heuristic_calls = 0;
      blas_behaviour().first_launches = 0;
      blas_behaviour().launched.clear();
      blas_behaviour().epilogues.clear();
    };
    return run_graph(trace, options);
  }
  RunOptions on_cpu() {
    return {.inputs = {{"target", tensor_of(target_, {rows, width})},
                       {"targets", tensor_of(targets_, {rows})}},
            .compute = GetParam(),
            .parameters = DType::bf16};
  }

  std::vector<float> target_ = random_floats("target", rows* width);
  std::vector<std::int32_t> targets_ = random_tokens("targets", rows, 40);
  Preparation preparation_;
};

TEST_P(LayersOnAGpu, AskCuBlasForNothingInTheFirstStep) {
  const ScratchDirectory cache;
  for (const Trace& trace : {Trace(layers), Trace(head)})
    for (const std::string& directory : {std::string(), cache.path()}) {
      run(directory, trace);
      EXPECT_EQ(blas_behaviour().heuristic_calls, 0);
      EXPECT_FALSE(blas_behaviour().launched.empty());
      EXPECT_EQ(blas_behaviour().first_launches, 0) << "it may load something beside a collective";
    }
}

TEST_P(LayersOnAGpu, TakeTheFastestAlgorithmsOfTheirProducts) {
  const ScratchDirectory cache;
  run(cache.path());
  EXPECT_GT(preparation_.timed, 0);
  EXPECT_EQ(preparation_.stored, 0);
  for (const int place : blas_behaviour().launched) EXPECT_EQ(place, 1);  // the fastest
  const Index timed = preparation_.timed;
  run(cache.path());
  EXPECT_EQ(preparation_.timed, 0);
  EXPECT_EQ(preparation_.stored, timed);
}

TEST_P(LayersOnAGpu, AgreeWithTheCpu) {
  const GraphRun cpu = run_graph(layers, on_cpu());
  const ScratchDirectory cache;
  blas_behaviour().epilogue_us = -0.5;  // what is fused is the fastest
  for (const std::string& directory : {std::string(), cache.path()}) {
    const Difference d = difference(run(directory), cpu);
    EXPECT_LT(d.loss, GetParam() == DType::f32 ? 1e-6 : 0.01);
    EXPECT_LT(d.gradients, GetParam() == DType::f32 ? 1e-5 : 0.03) << d.worst;
  }
}

TEST_P(LayersOnAGpu, FuseWhatFollowsAProduct) {
  const ScratchDirectory cache;
  blas_behaviour().epilogue_us = -0.5;
  run(cache.path());
  const auto& launched = blas_behaviour().epilogues;
  EXPECT_THAT(launched, Contains(CUBLASLT_EPILOGUE_BIAS));
  EXPECT_THAT(launched, Contains(CUBLASLT_EPILOGUE_BGRADB));
  if (GetParam() == DType::bf16) {
    EXPECT_THAT(launched, Contains(CUBLASLT_EPILOGUE_GELU_AUX_BIAS).Times(1));
    EXPECT_THAT(launched, Contains(CUBLASLT_EPILOGUE_DGELU).Times(2));
  } else {  // f32 agrees with CPUs: GELU is a kernel of our own
    EXPECT_THAT(launched, Not(Contains(CUBLASLT_EPILOGUE_GELU_AUX_BIAS)));
    EXPECT_THAT(launched, Not(Contains(CUBLASLT_EPILOGUE_DGELU)));
  }
}

INSTANTIATE_TEST_SUITE_P(In, LayersOnAGpu, testing::Values(DType::f32, DType::bf16),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace trireme
