// Checkpointer: when ranks save, what they agree on, and what they load. The store module does the
// file work; this module does all communication, on the main thread only. What is saved lies in
// tiers (tiers/tier.h), nearest first.
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

#include "runtime/checkpoint/save_record.h"
#include "runtime/data/skipped_samples.h"
#include "runtime/optim/optimizer.h"
#include "runtime/store/manifest.h"

namespace trireme {

/// The progress of training: what a checkpoint holds besides tensors.
struct TrainingProgress {
  Index step = 0;     // steps that are done
  Index samples = 0;  // samples that were read of the stream
  Index updates = 0;  // steps of the optimizer: those that were not skipped
  Index skipped = 0;
};

/// What is saved besides tensors.
struct SavedState {
  TrainingProgress progress;
  const DataSource& train;
  std::string verified = {};  // this and the next: as in Manifest
  Index verified_step = -1;
};

namespace checkpoint {

class Saver;
class Tier;

/// What a tier takes of the memory of a rank's node, stated for the memory plan before there are
/// tiers.
struct TierNeed {
  Index saving = 0;     // for saves, while the rank runs
  Index snapshots = 0;  // in shared memory, for what outlives the job
};
/// Returns what all tiers need together.
TierNeed tiers_need(const Context& context, const FlatLayout& flat,
                    const OptimizerOptions& optimizer);

}  // namespace checkpoint

class Checkpointer {
 public:
  /// Collective. `flat` and `optimizer` are bound and borrowed; `optimizer` is null in a job of
  /// forward passes only, which loads parameters and saves nothing. `identity`: properties of the
  /// model that shapes do not show. With --save it takes the lease of the directory, cleans
  /// leftovers of dead jobs, and allocates all memory of a save. `saved`: is called on rank 0 when
  /// a save has ended. Throws: ConfigurationError on all ranks.
  Checkpointer(
      Context& context, FlatParameters& flat, Optimizer* optimizer, const KeyValues& identity,
      std::function<void(const SaveRecord&)> saved = [](const SaveRecord&) {});
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Collective, before the first step. Loads the checkpoint that --load and --ckpt-step select
  /// into parameters and optimizer. Returns the progress of training, zeros with --finetune;
  /// nothing when there is no checkpoint. Newer steps in --save are set aside. Throws:
  /// ConfigurationError (lists every difference between checkpoint and job; nothing was changed),
  /// JobError (no step is valid; gives the reason for each).
  std::optional<TrainingProgress> load(const DataSource& train);

  /// Returns, after load(), what --skip-samples and the checkpoint leave out of the data.
  const data::SkippedSamples& skipped_samples() const;

  /// Collective, after load(). Returns Manifest::verified_step of what was loaded; -1: nothing says
  /// it.
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

  /// Returns the tiers that keep states of this job, nearest first. After load() there are fewer
  /// where there is no memory for snapshots.
  const std::vector<checkpoint::Tier*>& tiers() const;
  /// Returns the last of them; null without --save.
  checkpoint::Saver* durable() const;
  /// Collective. Step `step` has ended. Starts saves in the tiers where they are due; not while the
  /// gradients of the newest step were not finite (`skipped`). `state`: collective, of the newest
  /// update, when it is fit to be saved.
  void end_step(Index step, bool skipped, const std::function<SavedState()>& state);
  /// Collective, when training has ended. `durable`: the newest state; snapshots are then removed.
  void end_snapshots(bool durable);
  /// Both do in all tiers what they do in Tier.
  void before_update();
  void poll();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
