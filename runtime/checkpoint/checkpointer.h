// Checkpointer: when ranks save, what they agree on, and what they load. The store module does the
// file work; this class does all communication, on the main thread only. A save goes through:
// snapshot (blocks) -> written by the worker -> checksums of all ranks on rank 0 (non-blocking) ->
// committed by rank 0's worker -> outcome known to all (non-blocking). poll() tests each arrow,
// between ops and at step boundaries (a step may take long). Only finish() waits, and save() while
// the previous save is unfinished.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/data/sidecar.h"
#include "trireme/data/source.h"
#include "trireme/job/run.h"

#include "runtime/data/skipped_samples.h"
#include "runtime/optim/optimizer.h"
#include "runtime/store/manifest.h"

namespace trireme {

/// The progress of training: what a checkpoint holds besides tensors.
struct TrainingProgress {
  Index step = 0;     // done
  Index samples = 0;  // of the sample stream, read
  Index updates = 0;  // of the optimizer: steps without the skipped ones
  Index skipped = 0;
};

class Checkpointer {
 public:
  /// Collective. `flat` and `optimizer` are bound and borrowed; `optimizer` is null in a job of
  /// forward passes only, which loads parameters and saves nothing. `identity`: properties of the
  /// model that shapes do not show. With --save it takes the lease of the directory, cleans
  /// leftovers of dead jobs, and allocates all memory of a save. Throws: ConfigurationError on all
  /// ranks.
  Checkpointer(Context& context, FlatParameters& flat, Optimizer* optimizer,
               const KeyValues& identity);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Host bytes for the memory plan: what a rank's Checkpointer keeps for saves, its snapshots in
  /// shared memory of the node, and what load() takes temporarily.
  static Index bytes(const Context& context, const FlatLayout& flat,
                     const OptimizerOptions& optimizer);
  static Index snapshot_bytes(const Context& context, const FlatLayout& flat,
                              const OptimizerOptions& optimizer);
  /// Collective. What copies that a rank keeps of other ranks' snapshots (--save-memory-partner)
  /// take beyond what snapshot_bytes() counts, which is as much as its own; less than 0 where they
  /// take less. `node`: that of this rank.
  static Index more_for_copies(const Context& context, const FlatLayout& flat,
                               const OptimizerOptions& optimizer, const std::string& node);
  /// What load() frees or uses again of an earlier attempt's snapshots in shared memory, besides
  /// those of the ranks in `own`: all of this node.
  static Index bytes_of_other_snapshots(const Context& context, const std::vector<int>& own);
  /// `device`: on which the parameters are, or are planned.
  static Index loading_bytes(const Context& c, const FlatLayout& flat, DeviceKind device);

  /// Collective, before the first step. Loads the checkpoint that --load and --ckpt-step select
  /// into parameters and optimizer. Returns the progress of training, zeros with --finetune;
  /// nothing when there is no checkpoint. Newer steps in --save are set aside. Throws:
  /// ConfigurationError (lists every difference between checkpoint and job; nothing was changed),
  /// JobError (no step is valid; gives the reason for each).
  std::optional<TrainingProgress> load(const DataSource& train);

  /// After load(): what --skip-samples and the checkpoint leave out of the data.
  const data::SkippedSamples& skipped_samples() const;

  /// Collective, after load(): Manifest::verified_step of what was loaded; -1: nothing says it.
  Index verified_step(const TrainingProgress& loaded) const;

  /// Collective, before the first step. Loads only the parameters, whatever the data and the
  /// optimizer of the checkpoint were, into a job that does not train. `tokenizer`, where it is
  /// known, must be the checkpoint's. Returns nothing without --load. Throws: as load(), and
  /// ConfigurationError when --load has no checkpoint.
  std::optional<TrainingProgress> load_parameters(const UsedTokenizer& tokenizer = {});

  /// Collective, when load() or load_parameters() has found nothing: fills the parameters from
  /// --load-hf. `draw`(held) draws the rows of each logical tensor from held(name) on. Throws:
  /// ConfigurationError, JobError.
  void load_initial_values(
      const std::function<void(const std::function<Index(const std::string&)>&)>& draw);

  /// Whether a save is due by --save-interval alone. The same on every rank.
  bool due(Index step) const;
  /// This rank's vote for --save-interval-seconds: true on rank 0 when this time has passed since
  /// the last save.
  bool votes_to_save() const;
  /// Collective. Starts a save of `progress`; first waits for the previous one. Does nothing
  /// without --save, or when this step is saved already. `verified`, `verified_step`: of Manifest.
  void save(const TrainingProgress& progress, const DataSource& train,
            const std::string& verified = "", Index verified_step = -1);
  /// Whether a snapshot in memory is due (--save-memory-interval). The same on every rank.
  bool snapshot_due(Index step) const;
  /// Starts one, after load(); it is complete when all ranks have voted.
  void save_snapshot(const TrainingProgress& progress);
  /// This rank's vote, and the sum over all ranks, at each step boundary.
  double snapshot_vote() const;
  void take_snapshot_vote(double sum);
  /// The same for copies of snapshots on disks of the nodes (--save-local); taken before that.
  double local_vote() const;
  void take_local_vote(double sum);
  /// The newest complete snapshot in memory, and on disks; -1: none.
  Index last_snapshot() const;
  Index last_local_snapshot() const;
  /// Collective, when training has ended. `durable`: the newest state; snapshots are then removed.
  void end_snapshots(bool durable);
  /// Call before the optimizer changes what a save in progress copies.
  void before_update();
  /// Reports that the gradients of the newest state are finite: older steps are deleted, according
  /// to --keep-last, once that state is committed.
  void after_update();
  /// Advances the save in progress; call at step boundaries and between ops. Never blocks, and
  /// allocates only when a save ends.
  void poll();
  /// Collective. Waits until the save in progress is committed or has failed.
  void wait();
  /// Collective. The same at the end of training; then deletes older steps according to
  /// --keep-last. Returns whether the last save succeeded.
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
