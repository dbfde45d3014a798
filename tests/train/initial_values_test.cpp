// Initial values are drawn when they are needed, and not where a checkpoint replaces them.
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/train/trainer.h"

#include "tests/support/scratch_directory.h"
#include "tests/train/two_blocks.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Ones : public DataSource {
 public:
  Index fill(Index, std::span<const Tensor> out) override {
    for (const Tensor& tensor : out)
      if (tensor.data != nullptr) std::fill_n(tensor.as<float>(), two_blocks_width, 1.0f);
    return two_blocks_width;
  }
};

constexpr const char* drawn = "initial values are drawn with --seed 1234";

Options options(const std::string& save, const std::string& load, Index steps) {
  Options result;
  result.checkpoint.save = save;
  result.checkpoint.load = load;
  result.train_iters = steps;
  result.learning_rate.decay_iters = 4;
  return result;
}

/// What one rank prints while `use` works with a trainer.
template <class F>
std::string output(const Options& options, F use) {
  testing::internal::CaptureStdout();
  run_on_threads(MeshShape(1, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(0, LogLevel::debug);
    Context context(options, mesh, *stream, log);
    Trainer trainer(context, Model(two_blocks));
    use(trainer);
  });
  return testing::internal::GetCapturedStdout();
}

TEST(InitialValues, AreNotDrawnWhereACheckpointGivesThem) {
  const ScratchDirectory folder;
  const std::string run = folder / "run";
  Ones data;
  const auto fit = [&](Trainer& trainer) { trainer.fit(data); };
  EXPECT_THAT(output(options(run, "", 2), fit), HasSubstr(drawn));
  EXPECT_THAT(output(options(run, run, 4), fit), Not(HasSubstr(drawn)));
  Options finetuned = options("", run, 2);
  finetuned.checkpoint.finetune = true;
  EXPECT_THAT(output(finetuned, fit), Not(HasSubstr(drawn)));
  EXPECT_THAT(output(options("", run, 0), [](Trainer& trainer) { trainer.load_parameters(); }),
              Not(HasSubstr(drawn)));
}

TEST(InitialValues, AreDrawnWhereThereIsNoCheckpointYet) {
  const ScratchDirectory folder;
  Ones data;
  EXPECT_THAT(output(options(folder.path(), folder.path(), 2),
                     [&](Trainer& trainer) { trainer.fit(data); }),
              HasSubstr(drawn));
}

/// Without resume(), which would load, and whatever the checkpoint is.
TEST(InitialValues, AreWhatIsEvaluatedBeforeAnythingIsLoaded) {
  const ScratchDirectory folder;
  const std::string run = folder / "run";
  Ones data;
  double fresh = 0, before = 0, after = 0, trained = 0;
  output(options(run, "", 3), [&](Trainer& trainer) {
    fresh = trainer.evaluate(data, 1);
    trainer.fit(data);
    trained = trainer.evaluate(data, 1);
  });
  output(options("", run, 4), [&](Trainer& trainer) {
    before = trainer.evaluate(data, 1);
    trainer.resume(data);
    after = trainer.evaluate(data, 1);
  });
  EXPECT_NE(fresh, trained);
  EXPECT_EQ(before, fresh);
  EXPECT_EQ(after, trained);
}

}  // namespace
}  // namespace trireme
