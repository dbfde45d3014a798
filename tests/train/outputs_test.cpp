// Trainer::outputs: a trained model of one's own is asked, and answers alike on every layout.
#include <cmath>
#include <filesystem>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/bf16.h"

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/sines.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The prediction of mlp(), of shape (batch, 2, width / 2): it needs no targets.
Value prediction(Graph& g, Index batch) {
  return reshape(mlp_blocks(g, batch), {batch, 2, width / 2});
}

/// Some columns of what the first of the blocks makes: strided, and not on the last stage.
Value early(Graph& g, Index batch) {
  Value x = g.input("x", {batch, width}), first = x;
  for (int i = 0; i < 4; ++i) {
    x = g.block("block", i, [&] { return mlp_block(x); });
    if (i == 0) first = x;
  }
  return slice(first, 1, 2, 5);
}

/// What the first of the blocks makes; the others have no ops.
Value without_later_ops(Graph& g, Index batch) {
  Value x = g.input("x", {batch, width});
  for (int i = 0; i < 4; ++i) x = g.block("block", i, [&] { return i == 0 ? mlp_block(x) : x; });
  return x;
}

using Result = Value (*)(Graph&, Index batch);

Model model_of(const Layout& layout, const Forward& result) {
  Model model([batch = layout.micro_batch](Graph& g) { return mlp(g, batch); });
  model.result = result;
  return model;
}

/// Says that no sample has a target, and refuses those beyond its end.
class ShortSines final : public Sines {
 public:
  explicit ShortSines(Index samples) : samples_(samples) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    require(out.size() == 2, "a source fills the inputs of the loss, not ", out.size());
    require(out[1].data == nullptr, "no op of the result takes y");
    require(sample < samples_, "sample ", sample, " is beyond the end");
    float ignored[width];
    const Tensor both[] = {out[0], {ignored, {width}}};
    Sines::fill(sample, both);
    return 0;
  }

 private:
  Index samples_;
};

/// The results of `samples` samples after three steps of training.
std::vector<float> outputs(const Layout& layout, Result result, Index samples) {
  std::vector<float> all;
  on_ranks(layout, options_for(layout), [&](Context& context) {
    Trainer trainer(context,
                    model_of(layout, [&](Graph& g) { return result(g, layout.micro_batch); }));
    Sines data;
    for (int i = 0; i < 3; ++i) trainer.step(data);
    ShortSines asked(samples);
    Index next = 0;
    for (int pass = 0; pass < 2; ++pass) {  // the second gives the same
      next = 0;
      trainer.outputs(asked, samples, [&](Index sample, const Tensor& row) {
        EXPECT_EQ(context.mesh().rank(), 0);
        EXPECT_EQ(sample, next++);
        EXPECT_TRUE(row.packed() && row.dtype == DType::f32);
        EXPECT_EQ(row.shape, result == prediction ? Shape({2, width / 2}) : Shape({3}));
        const float* first = row.as<float>();
        if (pass == 0)
          all.insert(all.end(), first, first + row.count());
        else
          EXPECT_EQ(*first, all.at(static_cast<std::size_t>(sample * row.count())));
      });
      EXPECT_EQ(next, context.mesh().rank() == 0 ? samples : 0);
    }
    trainer.step(data);  // training is not disturbed
  });
  return all;
}

const std::vector<Layout> layouts = {{1, 1, 1, 1, 2},       {2, 1, 1, 1, 2}, {1, 2, 1, 1, 1},
                                     {1, 1, 2, 1, 4},       {1, 2, 1, 2, 2}, {4, 1, 1, 1, 1, true},
                                     {2, 2, 2, 2, 1, true}, {1, 4, 1, 1, 1}};

TEST(Outputs, AreTheSameOnEveryLayout) {
  for (const Result result : {prediction, early})
    for (const Index samples : {1, 5, 8, 19}) {
      const std::vector<float> one = outputs({1, 1, 1, 1, 8}, result, samples);
      ASSERT_EQ(one.size(), static_cast<std::size_t>(samples * (result == early ? 3 : width)));
      double scale = 0;
      for (const float x : one) scale = std::max(scale, std::abs(static_cast<double>(x)));
      for (const Layout& layout : layouts) {
        SCOPED_TRACE(str(testing::PrintToString(layout), ", ", samples, " samples"));
        const std::vector<float> other = outputs(layout, result, samples);
        ASSERT_EQ(other.size(), one.size());
        // Three steps of training on another layout are within 2e-7 of each other as well.
        for (std::size_t i = 0; i < one.size(); ++i)
          EXPECT_NEAR(other[i], one[i], 1e-6 * scale) << i;
      }
    }
}

TEST(Outputs, OfTheSameParametersAreTheSameBitsOverDataAndPipelineRanks) {
  const auto untrained = [](const Layout& layout) {
    std::vector<float> all;
    on_ranks(layout, options_for(layout), [&](Context& context) {
      Trainer trainer(
          context, model_of(layout, [&](Graph& g) { return prediction(g, layout.micro_batch); }));
      Sines data;
      trainer.outputs(data, 13, [&](Index, const Tensor& row) {
        all.insert(all.end(), row.as<float>(), row.as<float>() + row.count());
      });
    });
    return all;
  };
  const std::vector<float> one = untrained({1, 1, 1, 1, 2});
  EXPECT_EQ(one.size(), static_cast<std::size_t>(13 * width));
  EXPECT_EQ(untrained({4, 1, 1, 1, 2}), one);
  EXPECT_EQ(untrained({1, 4, 1, 1, 2}), one);
  EXPECT_EQ(untrained({2, 2, 1, 2, 2}), one);
}

TEST(Outputs, OfAResultWhoseLaterBlocksHaveNoOpsComeFromTheLastStage) {
  const auto asked = [](const Layout& layout) {
    std::vector<float> all;
    on_ranks(layout, options_for(layout), [&](Context& context) {
      Trainer trainer(context, model_of(layout, [&](Graph& g) {
                        return without_later_ops(g, layout.micro_batch);
                      }));
      Sines data;
      trainer.outputs(data, 5, [&](Index, const Tensor& row) {
        all.insert(all.end(), row.as<float>(), row.as<float>() + row.count());
      });
    });
    return all;
  };
  const std::vector<float> one = asked({1, 1, 1, 1, 2});
  EXPECT_EQ(one.size(), static_cast<std::size_t>(5 * width));
  for (const Layout& layout : {Layout{1, 2, 1, 1, 2}, Layout{1, 4, 1, 1, 2}, Layout{2, 2, 1, 2, 2},
                               Layout{2, 2, 1, 2, 2, false, false, true}})
    EXPECT_EQ(asked(layout), one) << testing::PrintToString(layout);
}

TEST(Outputs, OfAModelInBf16AreItsBf16Numbers) {
  Layout layout{2, 2, 1, 1, 2};
  layout.bf16 = true;
  const std::vector<float> rounded = outputs(layout, prediction, 5);
  layout.bf16 = false;
  const std::vector<float> exact = outputs(layout, prediction, 5);
  ASSERT_EQ(rounded.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(to_float(to_bf16(rounded[i])), rounded[i]);
    EXPECT_NEAR(rounded[i], exact[i], 0.1);
  }
  EXPECT_NE(rounded, exact);
}

/// What every rank says when the Trainer is made, or asked for outputs.
std::string problem(
    const Layout& layout, const Forward& result, Index samples = 3,
    const OutputSink& sink = [](Index, const Tensor&) {}) {
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(layout, options_for(layout), [&](Context& context) {
    const std::string message = message_of([&] {
      Trainer trainer(context, model_of(layout, result));
      Sines data;
      trainer.outputs(data, samples, sink);
    });
    const std::lock_guard lock(mutex);
    messages.push_back(message);
  });
  EXPECT_EQ(messages, std::vector<std::string>(messages.size(), messages.at(0)));
  return messages.at(0);
}

TEST(Outputs, OfWhatIsNoRowASampleAreRefused) {
  const Layout layout{1, 2, 2, 1, 2};
  const auto blocks = [](Graph& g) { return mlp_blocks(g, 2); };
  const std::pair<Forward, const char*> faults[] = {
      {{},
       "1 problem\n  - Trainer::outputs needs Model::result: set it before the Trainer is "
       "constructed"},
      {[&](Graph& g) { return reshape(blocks(g), {2 * width}); },
       "Model::result is f32 (16), but its dim 0 is the sample and has to be --micro-batch-size 2"},
      {[&](Graph& g) {
         return squared_error(blocks(g), g.input("y", {2, width}));
       },
       "but its dim 0 is the sample"},
      {[&](Graph& g) { return split_columns(blocks(g)); },
       "Model::result is sharded on the tensor axis: gather_columns()"},
      {[&](Graph& g) {
         return blocks(g) + g.input("z", {2, width});
       },
       "input 'z' of Model::result is no input of Model::loss"},
      {[&](Graph& g) {
         return concat_columns({blocks(g), g.input("y", {2, 1})});
       },
       "input 'y' of Model::result is f32 (2, 1), and in Model::loss f32 (2, 8)"},
      {[&](Graph& g) { return linear(blocks(g), "probe", width); },
       "parameter 20 of a forward-only model is 'probe.weight' (8, 8), but training has fewer"},
      {[&](Graph& g) {
         g.parameter("early", {width}, replicated(), zeros());
         return blocks(g);
       },
       "parameter 0 of a forward-only model is 'early' (8), but training has "
       "'block.0.norm.weight'"},
  };
  for (const auto& [result, message] : faults)
    EXPECT_THAT(problem(layout, result), HasSubstr(message));
}

TEST(Outputs, OfNoSampleAreRefused) {
  EXPECT_THAT(problem(
                  {2, 1, 1, 1, 1}, [](Graph& g) { return prediction(g, 1); }, 0),
              HasSubstr("1 problem\n  - Trainer::outputs needs at least one sample, not 0"));
}

TEST(Outputs, OfDifferentNumbersOfSamplesOnRanksAreRefused) {
  const Layout layout{2, 1, 1, 1, 1};
  on_ranks(layout, options_for(layout), [&](Context& context) {
    Trainer trainer(context, model_of(layout, [](Graph& g) { return prediction(g, 1); }));
    Sines data;
    const Index samples = 8 * context.mesh().rank();  // 0 on rank 0
    EXPECT_THAT(
        message_of([&] { trainer.outputs(data, samples, [](Index, const Tensor&) {}); }),
        HasSubstr("samples of outputs must be the same on all ranks: rank 0 has 0, rank 1 has 8"));
    EXPECT_THAT(
        message_of([&] { trainer.evaluate(data, 3 - context.mesh().rank()); }),
        HasSubstr("batches of evaluate must be the same on all ranks: rank 0 has 3, rank 1 has 2"));
  });
}

TEST(Outputs, ASinkThatThrowsEndsAllRanks) {
  EXPECT_EQ(problem(
                {2, 2, 1, 1, 1}, [](Graph& g) { return prediction(g, 1); }, 30,
                [](Index sample, const Tensor&) { require(sample < 11, "the disk is full"); }),
            "rank 0: the function given to Trainer::outputs, sample 11: the disk is full");
}

TEST(Outputs, EndAtAVoteToStopWhenTheStateIsSaved) {
  const ScratchDirectory folder;
  const Layout layout{2, 1, 1, 1, 1};
  Options options = options_for(layout);
  options.train_iters = options.learning_rate.decay_iters = 2;
  options.checkpoint.save = folder / "run";
  run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    Index seen = 0;
    const auto reason = [&] { return seen > 50 ? "SIGTERM" : ""; };
    Context context(options, mesh, *stream, log, {}, reason);
    Trainer trainer(context, model_of(layout, [](Graph& g) { return prediction(g, 1); }));
    Sines data;
    trainer.fit(data);
    const auto count = [&](Index, const Tensor&) { ++seen; };
    EXPECT_THROW(trainer.outputs(data, 1000000, count), Stopped);
    EXPECT_EQ(seen, mesh.rank() == 0 ? 56 : 0);
  });
}

}  // namespace
}  // namespace trireme
