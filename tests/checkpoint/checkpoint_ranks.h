// Ranks of the tiny model (every kind of parameter: whole, split, padded, packed, tied) with a
// Checkpointer, and their state as logical tensors.
#pragma once

#include <gtest/gtest.h>

#include "runtime/checkpoint/tiers/memory_tier.h"
#include "runtime/checkpoint/tiers/saver.h"
#include "runtime/store/steps.h"
#include "tests/optim/mesh_steps.h"
#include "tests/support/training_run.h"

namespace trireme::testing {

/// Samples do not matter here; what the source says of itself does.
class NamedSource final : public DataSource {
 public:
  explicit NamedSource(std::string tokens = "0 to 100 of 100") : tokens_(std::move(tokens)) {}
  Index fill(Index, std::span<const Tensor>) override { return 0; }
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return {{"train tokens", tokens_}};
  }

 private:
  std::string tokens_;
};

struct CheckpointJob {
  Layout layout{1, 1, 1, 1};
  Update update = Update::replicated;
  Options options = {};
  KeyValues model = {{"--num-attention-heads", "4"}};
  int blocks = 4;
  std::vector<Index> shares = {};  // of data ranks in the optimizer
};

/// The job, computing in bf16.
inline CheckpointJob in_bf16(CheckpointJob job) {
  job.options.bf16 = true;
  return job;
}

inline std::vector<Update> updates() { return {Update::replicated, Update::sharded}; }

/// One rank of a job.
struct CheckpointRank {
  CheckpointRank(Mesh& mesh, const CheckpointJob& job_)
      : job(job_),
        steps(mesh, job.layout, tiny(job), job.options.optimizer),
        log(mesh.rank(), LogLevel::quiet),
        context(job.options, mesh, *steps.stream, log),
        checkpointer(context, *steps.model.flat, &*steps.optimizer, job.model) {}

  static TinyOptions tiny(const CheckpointJob& job) {
    TinyOptions options;
    options.blocks = job.blocks;
    options.chunks = job.layout.chunks;
    options.update = job.update;
    options.compute = job.options.compute();
    options.shares = job.shares;
    return options;
  }

  /// Steps of training up to step `last`.
  void train_to(Index last) {
    while (progress.step < last) {
      steps.step(progress.step, 0.01);
      ++progress.step;
      progress.samples += 8;
      progress.updates = steps.optimizer->updates();
      checkpointer.poll();
    }
  }
  void load(const DataSource& source = NamedSource()) {
    progress = checkpointer.load(source).value_or(TrainingProgress{});
  }
  checkpoint::Saver& durable() const { return *checkpointer.durable(); }
  checkpoint::MemoryTier& memory() const {
    return dynamic_cast<checkpoint::MemoryTier&>(*checkpointer.tiers().front());
  }
  /// The first and the last tier of copies.
  checkpoint::Tier& partner() const { return *memory().copies().front(); }
  checkpoint::Tier& local() const { return *memory().copies().back(); }
  void save() { durable().start({progress, NamedSource()}); }
  /// Whether the last save succeeded.
  bool finish() {
    durable().finish_and_delete_older();
    return durable().failures() == 0;
  }
  bool save_and_wait() {
    save();
    return finish();
  }
  void add_state_to(Gathered& all) const {
    const FlatParameters& flat = *steps.model.flat;
    all.add(flat.master_extents(), flat.master_data());
    all.add(flat.parameter_extents(), computed().data(), "bf16/");
    for (const Optimizer::StateTensor& tensor : steps.optimizer->state_tensors())
      all.add(flat.state_extents(), tensor.data, tensor.name + "/");
  }
  /// What ops read, rounded to bf16 whatever the job computes in, so that jobs can be compared.
  std::vector<float> computed() const {
    const FlatParameters& flat = *steps.model.flat;
    std::vector<float> all;
    for (Index i = 0; i < flat.count(); ++i)
      all.push_back(to_float(flat.compute_data() != nullptr ? flat.compute_data()[i]
                                                            : to_bf16(flat.master_data()[i])));
    return all;
  }
  /// Sums of what is no logical element.
  double padding() const {
    const FlatParameters& flat = *steps.model.flat;
    std::vector<float> rest(flat.master_data(), flat.master_data() + flat.master_count());
    for (const FlatExtent& extent : flat.master_extents())
      for_each_element(extent,
                       [&](Index, Index offset) { rest[static_cast<std::size_t>(offset)] = 0; });
    double sum = 0;
    for (const float value : rest) sum += std::abs(static_cast<double>(value));
    return sum;
  }

  CheckpointJob job;
  StepRank steps;
  Log log;
  Context context;
  Checkpointer checkpointer;
  TrainingProgress progress;
};

/// f(rank) on every rank of the job, as threads.
inline void on_threads(const CheckpointJob& job, const std::function<void(CheckpointRank&)>& f,
                       const ThreadTransport& transport = {}) {
  run_on_threads(
      job.layout.shape(),
      [&](Mesh& mesh) {
        CheckpointRank rank(mesh, job);
        f(rank);
      },
      transport);
}

inline CheckpointJob saving_to(const std::string& directory, CheckpointJob job = {}) {
  job.options.checkpoint.save = directory;
  return job;
}
inline CheckpointJob loading_from(const std::string& directory, CheckpointJob job = {}) {
  job.options.checkpoint.load = directory;
  return job;
}

/// The steps in a directory, newest first.
inline std::vector<Index> steps_in(const std::string& directory) {
  std::vector<Index> steps;
  for (const CommittedStep& step : list_steps(directory)) steps.push_back(step.step);
  return steps;
}

using Tensors = std::map<std::string, std::vector<float>>;

/// Trains to step 3 and saves it. Returns the state.
inline Tensors save_step_3(CheckpointJob job, const std::string& directory) {
  Gathered state;
  on_threads(saving_to(directory, std::move(job)), [&](CheckpointRank& rank) {
    rank.train_to(3);
    EXPECT_TRUE(rank.save_and_wait());
    rank.add_state_to(state);
  });
  EXPECT_EQ(state.disagreements(), 0);
  return state.tensors();
}

/// Steps 2, 4 and 6 in `directory`.
inline void save_three(const std::string& directory) {
  on_threads(saving_to(directory, {{2, 1, 2, 1}}), [&](CheckpointRank& rank) {
    for (const Index step : {2, 4, 6}) {
      rank.train_to(step);
      EXPECT_TRUE(rank.save_and_wait());
    }
  });
}

}  // namespace trireme::testing
