// Trainer::State: what a Trainer holds, in the order in which it is made.
#pragma once

#include <memory>
#include <optional>

#include "trireme/train/trainer.h"

#include "runtime/checkpoint/tiers/saver.h"
#include "runtime/optim/learning_rate.h"
#include "runtime/train/bound_training.h"
#include "runtime/train/chaos/planted_faults.h"
#include "runtime/train/layout/plan_comparison.h"
#include "runtime/train/numerics/loss_spikes.h"
#include "runtime/train/numerics/replica_checks.h"
#include "runtime/train/profile/profile_report.h"
#include "runtime/train/sinks/sinks.h"
#include "runtime/train/votes.h"

namespace trireme {

struct Trainer::State {
  /// Collective. Each move is agreed on by all ranks: trace and plan (the same model), connect the
  /// groups, compare memory with what is free, allocate once, prepare.
  State(Context& context, const Model& model);
  static State& of(Trainer& trainer) { return *trainer.state_; }

  enum class End { finished, stopped, diverged };

  /// Collective. Does what Trainer::step says.
  StepMetrics step(DataSource& source);
  /// Collective. Does steps until --train-iters are done. Returns the same on all ranks.
  End run_steps(DataSource& train, DataSource* validation);
  /// Collective. Makes the last save. A state whose gradients were not finite pushes out no older
  /// one.
  void finish_saves(End end, const DataSource& train);
  /// Collective. Does what Trainer::evaluate says. Returns nothing where it ends early, since all
  /// agree to stop and `may_stop`. `reports`: logs a line every few seconds.
  std::optional<double> run_evaluation(DataSource& validation, Index batches, bool may_stop,
                                       bool reports);
  /// Collective. Does what Trainer::outputs says. Returns false where it ends early, since all
  /// agree to stop.
  bool run_outputs(DataSource& source, Index samples, const OutputSink& sink);
  /// Returns whether the newest state is in a checkpoint, so that a job can stop at a signal; so is
  /// that of a job that never changes it.
  bool is_saved() const { return !plan.spec.trains || last_committed() == last_update.step; }
  /// Ends what follows training, when all have agreed to stop and the state is saved. Throws:
  /// Stopped.
  [[noreturn]] void stop_after_training();
  /// Logs once that training will stop, for the users who wait for it.
  void announce_stop(Index last_step);
  /// Called between ops as well, because a step may take minutes.
  void announce_stop_if_asked() {
    if (running_step > 0 && !context.stop_reason().empty()) announce_stop(running_step);
  }
  /// Returns the tier of --save; null without it.
  checkpoint::Saver* durable() const { return checkpointer ? checkpointer->durable() : nullptr; }
  /// Returns the newest step of this run in --save; -1: none.
  Index last_committed() const { return durable() != nullptr ? durable()->newest() : -1; }
  /// Collective. Returns the newest state, once its replicas were found to agree.
  SavedState state_to_save(const DataSource& train);
  /// Collective. Compares the replicas of the newest state, and stops when they differ.
  void compare_replicas();
  /// Collective. Throws: JobError with ExitCode::corrupted when something is wrong; what is being
  /// saved is durable then. `wrong`: the same on every rank.
  void stop_if_corrupted(const std::string& wrong);
  /// Collective. Takes over what a checkpoint gave; nothing where there was none.
  void take_loaded(const std::optional<TrainingProgress>& loaded);
  /// Throws: Error where only forward passes run.
  void need_training() const;
  /// Collective. Called before parameters are read. Loads initial values from --load-hf, or draws
  /// them, where there are none yet: not when the trainer is made, since drawing takes 40 ns a
  /// value, for values that a checkpoint replaces.
  void need_values();
  /// Says on the status page that passes run which are no step of training.
  void enter_evaluation() {
    if (page.phase() != observe::Phase::evaluate) page.enter(observe::Phase::evaluate);
  }
  /// While one exists the status page shows what the trainer does, otherwise that the program's own
  /// code runs, which shows no progress.
  class Call {
   public:
    explicit Call(State& state) : state_(state) { ++state_.calls; }
    ~Call() {
      if (--state_.calls == 0) state_.page.enter(observe::Phase::program);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    State& state_;
  };
  std::string describe_divergence(const std::string& failed_saves) const;

  Context& context;
  observe::StatusPage no_page;
  observe::StatusPage& page;  // this rank's
  train::PlantedFaults planted;
  int calls = 0;  // calls of the trainer's functions that have not returned; they call each other
  train::Sinks sinks;  // where the records of training go
  const PlannedTraining plan;
  const TieGroups ties;  // connected
  const int node_ranks;  // ranks of this job on this rank's node
  const std::unique_ptr<train::TrainingProfile>
      profile;  // null without --profile-ops, or on other ranks
  // What `bound` polls between two ops: null until all members are made, because `bound` runs ops
  // while it is made, before `checkpointer` exists.
  Checkpointer* polled = nullptr;
  train::BoundTraining bound;
  const std::unique_ptr<Checkpointer> checkpointer;  // null without --save and --load
  train::ReplicaChecks replicas;
  train::StepVerification verification;
  const LearningRate learning_rate;
  data::SkippedSamples left_out;  // samples of the training data that are not read
  TrainingProgress progress;
  TrainingProgress last_update;                     // when the last update was made: what is saved
  bool resumed = false;                             // resume() was called
  std::optional<train::PlanComparison> comparison;  // what --plan auto compares
  Index running_step = 0;                           // the step that fit() runs; 0: none
  bool stop_announced = false;                      // the log says it
  std::vector<Metric> step_metrics, evaluation_metrics;  // those of the last step or evaluation
  /// What all ranks agreed on at the end of the last step, or with the batch loaded since.
  struct Agreement {
    bool stop = false;
  } agreed;

 private:
  /// StepObserver: what watches a step, or acts in it, beside training. A step calls all of them,
  /// in the order of the list; nothing is allocated in it.
  struct StepObserver {
    std::function<void(Index step)> begin = [](Index) {};
    /// Work of this part is queued.
    std::function<void(train::StepPart part)> queued = [](train::StepPart) {};
    /// The next work that is queued changes parameters and state.
    std::function<void()> before_update = [] {};
    /// All ranks have agreed on the step, and `progress` counts it.
    std::function<void(const StepMetrics& metrics)> end = [](const StepMetrics&) {};
  };
  /// Called once, when all members are made.
  void list_observers();
  void queued(train::StepPart part) {
    for (const StepObserver& observer : observers_) observer.queued(part);
  }
  std::vector<StepObserver> observers_;
  std::int64_t waited_before_ = 0;  // the step: nanoseconds that the status page counts
  std::optional<double> last_step_ms_;
  bool has_values_ = false;  // parameters are drawn or loaded
  train::Votes votes_;
  /// The loss, one element for each of `votes_`, and the metrics.
  std::vector<double> sums_;
  std::size_t first_metric() const { return 1 + votes_.count(); }  // in sums_
  /// Lists what ranks agree on at the end of a step. Called when all members are made, and after
  /// loading, which may have lost tiers.
  void list_votes();
  /// Adds what `pass` has computed to `sums_`: the loss, and behind it the metrics. Of all ranks
  /// with the same sums, one counts.
  void add_sums(train::Pass& pass);
  /// Collective. Divides the total of `sums_` over the world, in a fixed order, by `targets`:
  /// returns the loss, and puts the metrics into `metrics`.
  double finish_sums(double targets, std::vector<Metric>& metrics);
  /// Collective. Does that at the end of a step, and settles the votes, which are part of the sums.
  /// Then the step counts.
  void agree(StepMetrics& metrics);
  /// Collective. Reads the global batch that begins at sample `first` of the stream into `inputs`.
  /// Returns the targets of all data ranks. The votes to stop travel with them, into `agreed`.
  /// `end`: of a stream that is asked for outputs, which needs no targets; its last sample fills
  /// the batch. Throws: JobError when any rank's data is bad.
  Index load(train::InputBatch& inputs, DataSource& source, Index first,
             std::optional<Index> end = {});
  /// Returns whether the step is --profile-step, whether or not this rank has a profile.
  bool is_profiled(Index step) const {
    return !context.options().profile_ops.empty() && step == context.options().profile_step;
  }
  /// Queues the gradients of a step, and their sums over the mesh; two times, hashed, where the
  /// step is verified.
  void compute_gradients(const StepMetrics& metrics);
  /// Queues the update.
  void update(const StepMetrics& metrics);
};

}  // namespace trireme
