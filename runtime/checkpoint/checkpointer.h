// Checkpointer: when ranks save, what they agree on, and what they load. The store module does the
// file work; here is all communication, by the main thread only. A save goes through: snapshot
// (blocks) -> written by the worker -> checksums of all ranks on rank 0 (non-blocking) -> committed
// by rank 0's worker -> outcome known to all (non-blocking). Each arrow is tested by poll(),
// between ops and at step boundaries (a step may take long); only save(), while the save before is
// unfinished, and finish() wait. Not installed; modules above may include it.
#pragma once

#include <memory>

#include "trireme/data/source.h"
#include "trireme/job/run.h"
#include "trireme/optim/optimizer.h"

#include "runtime/store/manifest.h"

namespace trireme {

/// How far training is: what a checkpoint holds besides tensors.
struct TrainingProgress {
  Index step = 0;     // done
  Index samples = 0;  // of the sample stream, read
  Index updates = 0;  // of the optimizer: steps without the skipped ones
  Index skipped = 0;
};

class Checkpointer {
 public:
  /// Collective. `flat` and `optimizer` are bound and borrowed. `identity`: facts about the model
  /// that shapes do not show. With --save it takes the lease of the directory, cleans leftovers of
  /// dead jobs, and allocates all memory of a save. Throws: ConfigurationError on all ranks alike.
  Checkpointer(Context& context, FlatParameters& flat, Optimizer& optimizer,
               const KeyValues& identity);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Host bytes for the memory plan: what a rank's Checkpointer keeps for saves, and what load()
  /// takes besides, for a while.
  static Index bytes(const Context& context, const FlatParameters& flat,
                     const OptimizerOptions& optimizer);
  static Index loading_bytes(const Context& context, const FlatParameters& flat);

  /// Collective, before the first step. Loads what --load and --ckpt-step say into parameters and
  /// optimizer. Returns where training is: zeros when there is nothing to resume, or with
  /// --finetune. Steps in --save that are newer are set aside. Throws: ConfigurationError (every
  /// difference between checkpoint and job; nothing was changed), JobError (no step is good; the
  /// reasons of each).
  TrainingProgress load(const DataSource& train);

  /// Collective, before the first step. Loads parameters alone, whatever the data and the optimizer
  /// of the checkpoint were, into a job that does not train. Zeros without --load. Throws: as
  /// load(), and ConfigurationError when --load has no checkpoint.
  TrainingProgress load_parameters();

  /// Is it time? By --save-interval alone: the same on every rank.
  bool due(Index step) const;
  /// This rank's vote for --save-interval-seconds: true on rank 0 when the time since the last save
  /// is over.
  bool votes_to_save() const;
  /// Collective. Starts a save of `progress`; first waits for the one before. Does nothing without
  /// --save, or when this step is saved already.
  void save(const TrainingProgress& progress, const DataSource& train);
  /// Before the optimizer changes what a save under way copies.
  void before_update();
  /// The gradients of the newest state are finite: what is older goes, as --keep-last says, once
  /// that is committed.
  void after_update();
  /// At step boundaries and between ops: moves the save under way on. Never blocks, and allocates
  /// only where a save ends.
  void poll();
  /// Collective. Waits until the save under way is committed or has failed.
  void wait();
  /// Collective. The same at the end of training; then what is older goes, as --keep-last says.
  /// Returns whether the last save succeeded.
  bool finish();
  /// Saves that failed since the last one that succeeded.
  Index failures() const;
  /// On rank 0, after finish(): why the last one failed; empty when it did not.
  std::string last_failure() const;
  /// The newest committed step of this run, -1 when none.
  Index last_committed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
