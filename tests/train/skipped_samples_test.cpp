// --skip-samples: which samples each step reads, on every layout, and after a job has resumed.
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/kernels/device.h"
#include "trireme/train/trainer.h"

#include "tests/support/checkpoint_state.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/two_blocks.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Samples = std::set<Index>;

constexpr Index skipped_batch = 4;

/// What all ranks together have read.
class Read {
 public:
  void add(Index sample) {
    const std::lock_guard lock(mutex_);
    samples_.insert(sample);
  }
  const Samples& samples() const { return samples_; }

 private:
  std::mutex mutex_;
  Samples samples_;
};

class Data : public DataSource {
 public:
  explicit Data(Read& read) : read_(read) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    read_.add(sample);
    for (const Tensor& tensor : out)
      if (tensor.data != nullptr)
        std::fill_n(tensor.as<float>(), two_blocks_width, 1.0f + static_cast<float>(sample % 7));
    return two_blocks_width;
  }

 private:
  Read& read_;
};

class SkippedSamplesOfFit : public testing::Test {
 protected:
  SkippedSamplesOfFit() {
    options_.global_batch_size = skipped_batch;
    options_.learning_rate.decay_iters = 12;
    options_.checkpoint.save_interval = 2;
    options_.checkpoint.async_save = false;
    in("run");
  }
  void in(const std::string& name) {
    options_.checkpoint.save = options_.checkpoint.load = folder_ / name;
  }
  /// Trains to step `last`; returns what was read.
  Samples fit(const MeshShape& shape, Index last, const std::vector<std::string>& skip = {},
              Index from = -1) {
    options_.train_iters = last;
    options_.checkpoint.skip_samples = skip;
    options_.checkpoint.ckpt_step = from;
    options_.tensor_size = shape.size(Axis::tensor);
    options_.pipeline_size = shape.size(Axis::pipeline);
    Read read;
    std::exception_ptr failed;
    run_on_threads(shape, [&](Mesh& mesh) {
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), LogLevel::quiet);
      Context context(options_, mesh, *stream, log);
      Trainer trainer(context, Model(two_blocks));
      Data data(read);
      try {
        trainer.fit(data);
      } catch (const ConfigurationError&) {  // on all ranks alike
        if (mesh.rank() == 0) failed = std::current_exception();
      }
    });
    if (failed) std::rethrow_exception(failed);
    return read.samples();
  }

  ScratchDirectory folder_;
  Options options_;
};

TEST_F(SkippedSamplesOfFit, AreNotReadAndTheOthersAreInTheirOrder) {
  EXPECT_THAT(fit({1, 1, 1}, 2, {"3-5"}), ElementsAre(0, 1, 2, 6, 7, 8, 9, 10));
}

TEST_F(SkippedSamplesOfFit, AreLeftOutAlikeOnEveryLayout) {
  std::vector<double> losses;
  for (const MeshShape& shape :
       {MeshShape(1, 1, 1), MeshShape(2, 1, 1), MeshShape(4, 1, 1), MeshShape(2, 2, 1)}) {
    const std::string name = str("on-", shape.size(Axis::data), shape.size(Axis::pipeline));
    in(name);
    options_.metrics = folder_ / (name + ".jsonl");
    EXPECT_THAT(fit(shape, 2, {"1-2", "6-6"}), ElementsAre(0, 3, 4, 5, 7, 8, 9, 10));
    const std::string lines = folder_.read(name + ".jsonl");
    losses.push_back(nlohmann::json::parse(lines.substr(lines.find('\n') + 1)).at("loss"));
    EXPECT_NEAR(losses.back(), losses.front(), 2e-7 * losses.front()) << name;
  }
}

TEST_F(SkippedSamplesOfFit, StayLeftOutWhereAnotherLayoutResumesWithoutTheOption) {
  fit({1, 1, 1}, 6);
  EXPECT_THAT(fit({2, 1, 1}, 4, {"9-12"}, 2), ElementsAre(8, 13, 14, 15, 16, 17, 18, 19));
  EXPECT_THAT(fit({1, 2, 1}, 5), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(fit({1, 1, 1}, 6, {"9-12"}), ElementsAre(24, 25, 26, 27)) << "once more is nothing";
  EXPECT_THAT(fit({2, 1, 1}, 7, {"29-29"}), ElementsAre(28, 30, 31, 32));
  EXPECT_THAT(fit({1, 1, 1}, 8), ElementsAre(33, 34, 35, 36));
}

TEST_F(SkippedSamplesOfFit, AreKeptBeforeTheyAreReached) {
  fit({1, 1, 1}, 2, {"17-18"});
  EXPECT_THAT(fit({2, 1, 1}, 5), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 21));
}

TEST_F(SkippedSamplesOfFit, ThatWereReadAreRefusedAndNothingIsSetAside) {
  fit({1, 1, 1}, 6);
  EXPECT_THAT(
      message_of([&] {
        fit({2, 1, 1}, 8, {"15-20"}, 4);
      }),
      HasSubstr("--skip-samples 15-20: sample 15 was read before step 4, from which the job "
                "resumes; an older one is chosen with --ckpt-step"));
  EXPECT_THAT(test::committed_steps(options_.checkpoint.save), ElementsAre(6, 4, 2));
}

TEST_F(SkippedSamplesOfFit, OfTheCheckpointAreNotThoseOfAJobThatTakesItsWeights) {
  fit({1, 1, 1}, 2, {"1-3"});
  options_.checkpoint.finetune = true;
  options_.checkpoint.save = folder_ / "fine";
  EXPECT_THAT(fit({1, 1, 1}, 1), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace trireme::train
