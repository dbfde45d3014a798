// What a Trainer holds: passes, flat buffers, and the one arena under all of them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trireme/optim/optimizer.h"
#include "trireme/train/trainer.h"

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/train/input_batch.h"
#include "runtime/train/pass.h"
#include "runtime/train/profile/profile_report.h"

namespace trireme {

class LearningRate;

struct Trainer::State {
  State(Context& context, const Model& model);

  /// Sums `value` over the world in a fixed order; only tensor rank 0 of the last stage contributes.
  double sum_of_losses(double value);
  /// The same at the end of a step; the votes to stop and to save travel with it, into `agreed`.
  double end_step(double loss);
  /// Collective. The global batch that begins at sample `first` of the stream into `inputs`;
  /// returns the targets of all data ranks. The votes to stop travel with them, into `agreed`.
  /// Throws: JobError when any rank's data is bad.
  Index load(InputBatch& inputs, DataSource& source, Index first);
  /// Collective. As Trainer::evaluate; nothing where it ends early, since all agree to stop and
  /// `may_stop`.
  std::optional<double> run_evaluation(DataSource& validation, Index batches, bool may_stop);
  /// The newest state is in a checkpoint, so that a job can stop at a signal.
  bool is_saved() const {
    return checkpointer && checkpointer->last_committed() == last_update.step;
  }
  /// For what follows training, when all have agreed to stop and the state is saved. Throws:
  /// Stopped.
  [[noreturn]] void stop_after_training() const;
  /// The step that is --profile-step, whether or not this rank has a profile.
  bool is_profiled(Index step) const {
    return !context.options().profile_ops.empty() && step == context.options().profile_step;
  }
  /// For the profile, where there is one and its step runs.
  void mark(StepPart part) {
    if (profile) profile->mark(part);
  }
  /// Queues the micro-batches of a step.
  void start_micro_batches(bool profiled);
  /// Collective, behind a step that was profiled: rank 0 writes what all stages have.
  void report_profile(Index step, double step_ms);
  void dump_parameters();
  void dump_gradients();

  Context& context;
  // In the order in which they are made; each needs those above.
  std::unique_ptr<Pass> train, evaluate, generate;  // generate: null without Model::logits
  std::unique_ptr<FlatParameters> flat;
  std::unique_ptr<InputBatch> train_inputs, evaluate_inputs;
  TieGroups ties;  // until the reducer takes them
  Buffer arena;
  std::unique_ptr<GradientReducer> reducer;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<StepProfile> profile;  // null without --profile-ops, or on other ranks
  DeviceLimits limits;                   // measured for it
  std::optional<double> last_step_ms;
  std::unique_ptr<Checkpointer> checkpointer;  // null without --save and --load
  std::unique_ptr<const LearningRate> learning_rate;
  Index checkpoint_bytes = 0;  // host memory of a save
  Index loading_bytes = 0;     // and while --load is read
  int node_ranks = 1;          // ranks of this job on this rank's node
  TrainingProgress progress;
  TrainingProgress last_update;  // when the last update was made: what is saved
  bool resumed = false;          // resume() was called
  /// What all ranks agreed on at the end of the last step, or with the batch loaded since.
  struct Agreement {
    bool stop = false, save = false;
  } agreed;

 private:
  void plan(const Model& model);
  void allocate();
  void draw_initial_values();
  /// Collective.
  void prepare();
  /// On all ranks at the same time, since they share what is measured; before memory is allocated.
  void plan_profile();
  void dump_plans() const;
};

}  // namespace trireme
