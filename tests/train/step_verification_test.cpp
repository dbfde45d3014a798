// --verify-step: a parameter is wrong for a few ops of the first computation of one step, as where
// a processor computes wrongly once. The rank is named; without a fault nothing changes.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/train/trainer.h"

#include "tests/support/checkpoint_state.h"
#include "tests/support/flipping_mesh.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/two_blocks.h"

namespace trireme::train {
namespace {

using test::committed_steps;
using test::FlippingMesh;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Index batch = 8;

class Data : public DataSource {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    for (const Tensor& tensor : out)
      if (tensor.data != nullptr)
        std::fill_n(tensor.as<float>(), two_blocks_width, 1.0f + static_cast<float>(sample % 5));
    return two_blocks_width;
  }
};

class VerifiedSteps : public testing::Test {
 protected:
  VerifiedSteps() {
    options_.train_iters = options_.learning_rate.decay_iters = 8;
    options_.global_batch_size = batch;
    options_.check_replicas = 0;
    options_.verify_step = 3;
    options_.checkpoint.save_interval = 1;
    options_.checkpoint.async_save = false;
    options_.checkpoint.save = folder_ / "run";
  }
  /// Returns the message of rank 0. On `rank` a parameter has another exponent between the third
  /// and the tenth op of step `step`.
  std::string fit(const MeshShape& shape, int rank = -1, Index step = 0) {
    options_.tensor_size = shape.size(Axis::tensor);
    std::string message;
    run_on_threads(shape, [&](Mesh& real) {
      FlippingMesh mesh(real);
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), LogLevel::quiet);
      const Trainer* trained = nullptr;
      int asked = 0;
      const auto between_ops = [&]() -> std::string_view {
        if (mesh.rank() != rank || trained == nullptr || trained->steps_done() + 1 != step)
          return "";
        ++asked;
        if (asked == 4 || asked == 11) mesh.flip(a_sign_byte_, 7);
        return "";
      };
      Context context(options_, mesh, *stream, log, {}, between_ops);
      Trainer trainer(context, Model(two_blocks));
      trained = &trainer;
      Data data;
      try {
        trainer.fit(data);
      } catch (const JobError& error) {
        EXPECT_EQ(error.code(), ExitCode::corrupted) << error.what();
        if (mesh.rank() == 0) message = error.what();
      }
    });
    return message;
  }

  ScratchDirectory folder_;
  Options options_;
  Index a_sign_byte_ = 3;  // of the first parameter
};

TEST_F(VerifiedSteps, NameTheRankWhoseGradientsDifferBeforeTheirSum) {
  const std::string message = fit({2, 1, 1}, 1, 6);
  EXPECT_THAT(message, HasSubstr("silent corruption: step 6, computed twice, has other bits the "
                                 "second time: rank 1 on "));
  EXPECT_THAT(message, HasSubstr(" computed other gradients of '"));
  EXPECT_THAT(message, HasSubstr("; the newest checkpoint is that of step 5"));
  EXPECT_THAT(committed_steps(options_.checkpoint.save), ElementsAre(5, 4, 3, 2, 1));
  EXPECT_THAT(folder_.read("run/replicas.jsonl"),
              HasSubstr("\"votes\":[],\"wrong\":[{\"attempt\":0,\"rank\":1,"));
}

TEST_F(VerifiedSteps, SeeNothingInStepsBetween) { EXPECT_EQ(fit({2, 1, 1}, 1, 5), ""); }

TEST_F(VerifiedSteps, ChangeNoBitOnAnyLayout) {
  for (const bool sharded : {false, true})
    for (const bool bf16 : {false, true}) {
      options_.use_distributed_optimizer = sharded;
      options_.bf16 = bf16;
      const std::string name = str(sharded, bf16);
      for (const Index interval : {0, 1}) {
        options_.verify_step = interval;
        options_.checkpoint.save = folder_ / str(name, "-", interval);
        EXPECT_EQ(fit({2, 1, 2}), "");
      }
      EXPECT_EQ(first_difference(test::read_checkpoint(folder_ / (name + "-0/step-000008")),
                                 test::read_checkpoint(folder_ / (name + "-1/step-000008"))),
                "");
    }
}

}  // namespace
}  // namespace trireme::train
