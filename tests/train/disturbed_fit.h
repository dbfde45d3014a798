// A fit of two blocks whose ranks are threads, in which a test flips bits: silent corruption,
// planted.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/train/trainer.h"

#include "tests/support/flipping_mesh.h"
#include "tests/train/two_blocks.h"

namespace trireme::train {

/// What a test sees of a rank.
struct DisturbedRank {
  int number;
  test::FlippingMesh* mesh = nullptr;
  const Trainer* trainer = nullptr;  // once it is made
};

/// What a test does on each rank; calls of a rank come from its thread.
struct Disturbance {
  std::function<test::FlipHooks(DisturbedRank&)> hooks = {};  // of the data group
  std::function<void(DisturbedRank&)> between_ops = {};
  std::function<void(DisturbedRank&, Index sample)> before_sample = {};
};

/// Inputs that repeat every five samples.
class DisturbedSamples final : public DataSource {
 public:
  DisturbedSamples(DisturbedRank& rank, const Disturbance& disturbance)
      : rank_(rank), disturbance_(disturbance) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    if (disturbance_.before_sample) disturbance_.before_sample(rank_, sample);
    for (const Tensor& tensor : out)
      if (tensor.data != nullptr)
        std::fill_n(tensor.as<float>(), two_blocks_width, 1.0f + static_cast<float>(sample % 5));
    return two_blocks_width;
  }

 private:
  DisturbedRank& rank_;
  const Disturbance& disturbance_;
};

/// The message of rank 0 where bits were found to differ, which all ranks find or none; empty: the
/// fit was finished.
inline std::string disturbed_fit(const MeshShape& shape, Options options,
                                 const Disturbance& disturbance = {}) {
  options.tensor_size = shape.size(Axis::tensor);
  options.pipeline_size = shape.size(Axis::pipeline);
  std::atomic<int> failed = 0;
  std::string message;
  run_on_threads(shape, [&](Mesh& real) {
    DisturbedRank rank{real.rank()};
    test::FlippingMesh mesh(real, disturbance.hooks ? disturbance.hooks(rank) : test::FlipHooks{});
    rank.mesh = &mesh;
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    Context context(options, mesh, *stream, log, {}, [&]() -> std::string_view {
      if (disturbance.between_ops && rank.trainer != nullptr) disturbance.between_ops(rank);
      return "";
    });
    Trainer trainer(context, Model(two_blocks));
    rank.trainer = &trainer;
    DisturbedSamples samples(rank, disturbance);
    try {
      trainer.fit(samples);
    } catch (const JobError& error) {
      EXPECT_EQ(error.code(), ExitCode::corrupted) << error.what();
      if (mesh.rank() == 0) message = error.what();
      ++failed;
    }
  });
  EXPECT_EQ(failed, message.empty() ? 0 : shape.size());
  return message;
}

}  // namespace trireme::train
