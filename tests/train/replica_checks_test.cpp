// --check-replicas: one bit of one data replica is flipped. The rank is named, nothing wrong is
// saved, and the job that goes back ends with the bits of one that nothing disturbed.
#include <atomic>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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
using testing::Not;

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

constexpr Index batch = 12;
constexpr Index a_mantissa_byte = 22;  // of the sixth parameter

/// The bit that is flipped on `rank` in step `step`: before it, or after its last use there.
struct Flip {
  int rank = -1;
  Index step = 0;
  bool after_use = false;
};

class Data : public DataSource {
 public:
  Data(FlippingMesh& mesh, Flip flip) : mesh_(mesh), flip_(flip) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    if (mesh_.rank() == flip_.rank && sample / batch + 1 == flip_.step && !flip_.after_use) {
      mesh_.flip(a_mantissa_byte, 5);
      flip_.rank = -1;
    }
    for (const Tensor& tensor : out)
      if (tensor.data != nullptr)
        std::fill_n(tensor.as<float>(), two_blocks_width, 1.0f + static_cast<float>(sample % 5));
    return two_blocks_width;
  }

 private:
  FlippingMesh& mesh_;
  Flip flip_;
};

class ReplicaChecksOfFit : public testing::Test {
 protected:
  ReplicaChecksOfFit() {
    options_.train_iters = options_.learning_rate.decay_iters = 12;
    options_.global_batch_size = batch;
    options_.check_replicas = 3;
    options_.bucket_size = 20;  // several buckets
    options_.checkpoint.save_interval = 4;
    options_.checkpoint.async_save = false;
    in("run");
  }
  void in(const std::string& name) {
    options_.checkpoint.save = options_.checkpoint.load = folder_ / name;
  }
  std::string root() const { return options_.checkpoint.save; }
  std::string file() const { return folder_.read("run/replicas.jsonl"); }

  /// Returns the message of rank 0; empty: it was finished. On all ranks the same.
  std::string fit(const MeshShape& shape, Flip flip = {}) {
    options_.tensor_size = shape.size(Axis::tensor);
    options_.pipeline_size = shape.size(Axis::pipeline);
    std::atomic<int> failed = 0;
    std::string message;
    run_on_threads(shape, [&](Mesh& real) {
      FlippingMesh* flips = nullptr;
      FlippingMesh mesh(real, hooks_of(real.rank(), flip, flips));
      flips = &mesh;
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), LogLevel::quiet);
      Context context(options_, mesh, *stream, log);
      Trainer trainer(context, Model(two_blocks));
      Data data(mesh, flip);
      try {
        trainer.fit(data);
      } catch (const JobError& error) {
        EXPECT_EQ(error.code(), ExitCode::corrupted) << error.what();
        if (mesh.rank() == 0) message = error.what();
        ++failed;
      }
    });
    EXPECT_EQ(failed, message.empty() ? 0 : shape.size());
    return message;
  }
  test::FlipHooks hooks_of(int rank, Flip flip, FlippingMesh*& mesh) {
    test::FlipHooks hooks;
    if (rank == gathers_of_)
      hooks.after_gather = [](Elements out, Index) {
        if (out.dtype != DType::i64) static_cast<std::byte*>(out.data)[1] ^= std::byte{4};
      };
    if (rank == 0 && flip.rank < 0) hooks.before_sum = [this](Index n) { sums_ = n + 1; };
    if (rank == flip.rank && flip.after_use)  // the last sum of gradients of the step begins
      hooks.before_sum = [&mesh, last = flip.step * sums_ / options_.train_iters - 1](Index n) {
        if (n == last) mesh->flip(a_mantissa_byte, 5);
      };
    return hooks;
  }
  /// The last step of this run is that of one that nothing disturbed.
  void expect_the_bits_of_a_clean_run(const MeshShape& shape) {
    const std::string mine = root();
    in("clean");
    EXPECT_EQ(fit(shape), "");
    const std::string last = "/step-000012";
    EXPECT_EQ(
        first_difference(test::read_checkpoint(mine + last), test::read_checkpoint(root() + last)),
        "");
  }

  ScratchDirectory folder_;
  Options options_;
  int gathers_of_ = -1;  // the rank whose gathers are damaged
  Index sums_ = 0;       // of gradients of a rank, in all steps of a run without a flip
};

struct Case {
  const char* name;
  MeshShape shape;
  bool bf16;
  int rank;
};

class OfThree : public ReplicaChecksOfFit, public testing::WithParamInterface<Case> {};

TEST_P(OfThree, OneRankIsNamedAndTheRunGoesBackToTheSameBits) {
  const Case& c = GetParam();
  options_.bf16 = c.bf16;
  const std::string message = fit(c.shape, {c.rank, 5});
  EXPECT_THAT(message, HasSubstr("silent corruption: after step 6 the data replicas differ in '"));
  EXPECT_THAT(message, HasSubstr(str("): rank ", c.rank, " on ")));
  EXPECT_THAT(message, HasSubstr(" has other bits than the others; the newest checkpoint is that "
                                 "of step 4"));
  EXPECT_THAT(committed_steps(root()), ElementsAre(4));
  EXPECT_THAT(file(), HasSubstr(str("\"wrong\":[{\"attempt\":0,\"rank\":", c.rank, ",\"host\"")));
  EXPECT_EQ(fit(c.shape), "");
  expect_the_bits_of_a_clean_run(c.shape);
}

INSTANTIATE_TEST_SUITE_P(Replicas, OfThree,
                         testing::Values(Case{"fp32", MeshShape(3, 1, 1), false, 1},
                                         Case{"bf16", MeshShape(3, 1, 1), true, 0},
                                         Case{"tp2", MeshShape(3, 1, 2), false, 5},
                                         Case{"pp2", MeshShape(3, 2, 1), false, 4}),
                         [](const auto& each) { return each.param.name; });

TEST_F(ReplicaChecksOfFit, NamesTheRankOfThreeThatReceivedOtherBitsWithADistributedOptimizer) {
  options_.use_distributed_optimizer = true;
  for (const bool bf16 : {false, true}) {
    options_.bf16 = bf16;
    in(bf16 ? "bf16" : "fp32");
    gathers_of_ = 2;
    const std::string message = fit({3, 1, 1});
    EXPECT_THAT(message, HasSubstr("after step 3 the data replicas differ"));
    EXPECT_THAT(message, HasSubstr("): rank 2 on "));
    EXPECT_THAT(message, HasSubstr("this job has no checkpoint"));
  }
}

TEST_F(ReplicaChecksOfFit, OfTwoLeavesTheDecisionToTheStepDoneAgain) {
  const MeshShape two(2, 1, 1);
  in("counted");
  EXPECT_EQ(fit(two), "");
  in("run");
  const std::string message = fit(two, {1, 6, true});
  EXPECT_THAT(message, HasSubstr("hold different bits, and the replicas do not decide whose are "
                                 "wrong: the step done again from a checkpoint does"));
  EXPECT_THAT(file(), HasSubstr("\"wrong\":[]"));
  options_.check_replicas = 1000;  // and yet step 6 is compared
  EXPECT_EQ(fit(two), "");
  EXPECT_THAT(file(),
              HasSubstr("\"wrong\":[{\"attempt\":0,\"rank\":1,\"host\":\"" + host() + "\"}]}"));
  expect_the_bits_of_a_clean_run(two);
}

TEST_F(ReplicaChecksOfFit, OfTwoBlamesNoRankWhereTheGradientsHaveSpreadTheWrongBits) {
  const MeshShape two(2, 1, 1);
  EXPECT_THAT(fit(two, {1, 5}), HasSubstr("after step 6 "));
  EXPECT_EQ(fit(two), "");
  EXPECT_THAT(file(), Not(HasSubstr("\"wrong\":[{")));
  expect_the_bits_of_a_clean_run(two);
}

TEST_F(ReplicaChecksOfFit, ComparesBeforeEverySave) {
  options_.check_replicas = 1000;
  EXPECT_THAT(fit({3, 1, 1}, {2, 6}), HasSubstr("after step 8 the data replicas differ"));
  EXPECT_THAT(committed_steps(root()), ElementsAre(4));
}

TEST_F(ReplicaChecksOfFit, IsOffWithZero) {
  options_.check_replicas = 0;
  EXPECT_EQ(fit({3, 1, 1}, {2, 6}), "");
  EXPECT_THAT(committed_steps(root()), ElementsAre(12, 8, 4));
  EXPECT_FALSE(std::filesystem::exists(root() + "/replicas.jsonl"));
}

}  // namespace
}  // namespace trireme::train
