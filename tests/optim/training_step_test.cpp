// A real model under the real executor: data parallel against one rank, when reductions start, and
// allocations.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include <gtest/gtest.h>

#include "runtime/graph/device_scalars.h"
#include "runtime/graph/executor.h"
#include "tests/optim/mesh_steps.h"
#include "tests/support/allocation_counter.h"

namespace trireme {
namespace {

using namespace testing;

/// y = x * w, w: (channels).
class Scale final : public Op {
 public:
  std::string name() const override { return "scale"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  bool accumulates(int input) const override { return input == 1; }
  void forward(Exec& e) const override {
    for_each(e.input(0), [&](Index i, Index c) {
      e.output(0).as<float>()[i] = e.input(0).as<float>()[i] * e.input(1).as<float>()[c];
    });
  }
  void backward(Exec& e) const override {
    for_each(e.input(0), [&](Index i, Index c) {
      const float dy = e.grad_output(0).as<float>()[i];
      if (e.wants(0)) e.grad_input(0).as<float>()[i] = dy * e.input(1).as<float>()[c];
      if (e.wants(1)) e.grad_input(1).as<float>()[c] += dy * e.input(0).as<float>()[i];
    });
  }

 private:
  template <class F>
  static void for_each(const Tensor& x, F&& f) {
    for (Index i = 0; i < x.count(); ++i) f(i, i % x.shape.back());
  }
};

/// Half the sum of squares.
class HalfSquares final : public Op {
 public:
  std::string name() const override { return "half_squares"; }
  Outputs infer(const Specs&) const override { return {Spec(Shape{}, DType::f64)}; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  void forward(Exec& e) const override {
    double sum = 0;
    for (Index i = 0; i < e.input(0).count(); ++i)
      sum += 0.5 * std::pow(static_cast<double>(e.input(0).as<float>()[i]), 2);
    *e.output(0).as<double>() = sum;
  }
  void backward(Exec& e) const override {
    const double seed = *e.grad_output(0).as<double>();
    for (Index i = 0; i < e.input(0).count(); ++i)
      e.grad_input(0).as<float>()[i] = static_cast<float>(seed) * e.input(0).as<float>()[i];
  }
};

constexpr Index rows = 2, channels = 32, global_samples = 8;
constexpr int blocks = 6;

Value scale_model(Graph& g) {
  Value x = g.input("x", {rows, channels});
  for (int i = 0; i < blocks; ++i)
    x = g.block("block", i, [&] {
      Value w = g.parameter("w", {channels}, replicated(), ones());
      return g.apply(std::make_shared<Scale>(), {x, w}).front();
    });
  return g.apply(std::make_shared<HalfSquares>(), {x}).front();
}

/// All of one data rank: micro-batches of `rows` samples until its share of the global batch is
/// done.
class DataRank {
 public:
  DataRank(Mesh& mesh, Update update)
      : mesh_(mesh),
        device_(open_cpu()),
        stream_(device_->make_stream()),
        loss_(trace()),
        cut_(cut_stages(graph_, {loss_}, 1)),
        plan_(graph_, {loss_}, cut_, 0),
        layout_(graph_, cut_, {&plan_},
                {4 * channels, mesh.coordinate(Axis::data), mesh.shape().size(Axis::data), update}),
        parameters_(mesh.allocate(layout_.parameter_bytes())),
        gradients_(mesh.allocate(layout_.gradient_bytes())),
        flat_(layout_, parameters_.data(), gradients_.data()) {
    flat_.initialise(1, *stream_, stream_->pool());
    ties_ = split_ties(flat_, mesh);
    reducer_ = std::make_unique<GradientReducer>(flat_, mesh, *stream_, ties_);
    hooks_ = std::make_unique<GradientReducer::Hooks>(reducer_.get(), 0);
    const OptimizerOptions options;
    scalars_.emplace(*stream_);
    state_ = device_->allocate(Optimizer::state_bytes(flat_, options));
    optimizer_ = std::make_unique<Optimizer>(flat_, mesh, *stream_, options, scalars_->data(),
                                             state_.data());
    slot_ = device_->allocate(plan_.bytes().slot);
    scratch_ = device_->allocate(plan_.bytes().scratch);
    executor_ = std::make_unique<Executor>(
        plan_,
        ExecutorMemory{slot_.data(), plan_.bytes().slot, scratch_.data(),
                       flat_.parameter_tensors(plan_), flat_.gradient_tensors(plan_), nullptr,
                       scalars_->data()},
        *stream_, mesh, *hooks_);
    input_ = Tensor(samples_.data(), {rows, channels});
  }

  Value trace() {
    graph_.plan_for(device_->traits());
    return scale_model(graph_);
  }

  StepReport step(Index number) {
    const Index share = global_samples / mesh_.shape().size(Axis::data);
    const Index first = share * mesh_.coordinate(Axis::data);
    StepScalars scalars{.loss_scale = 1.0 / global_samples};
    optimizer_->set_rates(scalars, 0.01);
    scalars_->write(scalars);
    reducer_->begin_step();
    for (Index i = 0; i < share; i += rows) {
      for (std::size_t k = 0; k < samples_.size(); ++k)
        samples_[k] = Random{42}.normal((number * global_samples + first + i) * channels +
                                        static_cast<Index>(k));
      const MicroBatch batch{.step = number,
                             .number = i / rows,
                             .first_sample = first + i,
                             .last = i + rows == share,
                             .inputs = {&input_, 1}};
      executor_->forward(0, batch);
      executor_->backward(0, batch);
    }
    reducer_->finish();
    return optimizer_->step();
  }

  const FlatParameters& flat() const { return flat_; }
  const ReductionRecord& record() const { return reducer_->record(); }

 private:
  Mesh& mesh_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Graph graph_;
  Value loss_;
  StageCut cut_;
  Plan plan_;
  FlatLayout layout_;
  Buffer parameters_, gradients_;
  FlatParameters flat_;
  Buffer state_, slot_, scratch_;
  TieGroups ties_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<GradientReducer::Hooks> hooks_;
  std::optional<DeviceScalars> scalars_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Executor> executor_;
  std::array<float, rows * channels> samples_;
  Tensor input_;
};

TEST(TrainingStep, DataParallelTrainingFollowsOneRank) {
  const auto alone = make_self_mesh();
  DataRank one(*alone, Update::replicated);
  std::vector<double> norms;
  for (Index step = 0; step < 5; ++step) norms.push_back(one.step(step).grad_norm);
  for (Update update : {Update::replicated, Update::sharded})
    run_on_threads(MeshShape(4, 1, 1), [&](Mesh& mesh) {
      DataRank rank(mesh, update);
      for (Index step = 0; step < 5; ++step)
        EXPECT_NEAR(rank.step(step).grad_norm, norms[static_cast<std::size_t>(step)],
                    1e-5 * norms[static_cast<std::size_t>(step)]);
      for (const FlatParameter& p : rank.flat().parameters()) {
        const auto& all = one.flat().parameters();
        const auto q = std::find_if(all.begin(), all.end(),
                                    [&](const FlatParameter& other) { return other.id == p.id; });
        for (Index i = 0; i < p.range.count; ++i)
          EXPECT_NEAR(rank.flat().master_data()[p.range.begin + i],
                      one.flat().master_data()[q->range.begin + i], 1e-5);
      }
    });
}

TEST(TrainingStep, TheFirstBucketStartsBeforeBackwardEnds) {
  run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
    DataRank rank(mesh, Update::replicated);
    rank.step(0);
    const ReductionRecord& record = rank.record();
    ASSERT_EQ(record.entries.size(), static_cast<std::size_t>(blocks));
    EXPECT_LT(record.entries.front().start_ms, record.backward_end_ms);
    EXPECT_LE(record.entries.front().boundary + blocks - 1, record.boundaries);
    for (std::size_t i = 1; i < record.entries.size(); ++i)
      EXPECT_GT(record.entries[i].boundary, record.entries[i - 1].boundary);
  });
}

TEST(TrainingStep, NothingIsAllocatedAfterTheFirstStep) {
  const auto mesh = make_self_mesh();
  DataRank rank(*mesh, Update::sharded);
  rank.step(0);
  const long before = test::allocations_of_this_thread();
  for (Index step = 1; step < 4; ++step) rank.step(step);
  EXPECT_EQ(test::allocations_of_this_thread(), before);
}

TEST(TrainingStep, ReductionAndUpdateAllocateNothingOnAMesh) {
  const Layout layout{2, 2, 2, 1};
  std::atomic<long> total = 0;
  run_on_threads(layout.shape(), [&](Mesh& mesh) {
    StepRank r(mesh, layout, {.update = Update::sharded}, {});
    r.step(0, 0.01);
    for (Index step = 1; step < 4; ++step) {
      r.begin(step);
      const long before = test::allocations_of_this_thread();
      r.backward();
      r.reducer->finish();
      r.update(0.01);
      total += test::allocations_of_this_thread() - before;
    }
  });
  EXPECT_EQ(total, 0);
}

}  // namespace
}  // namespace trireme
