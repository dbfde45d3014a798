// Loading: rank 0 chooses a step and reads its manifest, all ranks agree that it fits the job, and
// every rank reads the boxes that it holds. If anything is damaged on any rank, all fall back to
// the previous step.
//
// Not installed; modules above may include it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "trireme/core/key_values.h"
#include "trireme/data/source.h"
#include "trireme/job/run.h"

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/checkpoint/identity.h"
#include "runtime/checkpoint/tiers/memory_tier.h"
#include "runtime/optim/optimizer.h"
#include "runtime/store/manifest.h"

namespace trireme::checkpoint {

/// What to fill, and what it must match.
struct LoadTarget {
  const Context& context;
  FlatParameters& flat;
  Optimizer* optimizer;     // null: scope is parameters
  const Manifest& catalog;  // tensors of the whole job; used on rank 0
  KeyValues identity;
  std::map<std::string, std::string> files;  // the files that entries of the identity describe
  LoadScope scope;
  MemoryTier* memory = nullptr;  // snapshots that may be newer; null: none
};

/// What was loaded, and from where.
struct Loaded {
  TrainingProgress progress;
  /// The snapshot in memory and on disks of the nodes that was loaded; nothing: --load was.
  std::optional<checkpoint::SnapshotStep> snapshot;
  std::string skipped_samples;   // what the checkpoint leaves out; the form of a snapshot says it
  std::string tier = "durable";  // as in store::StartOfJob
  Index step = 0;                // the step of what was loaded, whatever the scope
};

/// Returns the host bytes that load_checkpoint takes while it reads, for the memory plan; none
/// without --load. `flat` need not be bound; `device`: on which it is.
Index loading_bytes(const Context& context, const FlatLayout& flat, DeviceKind device);

/// Collective. Loads the parameters and, depending on the scope, the moments from the newest valid
/// step of --load or of the memory of the nodes, or from --ckpt-step. Returns nothing when there is
/// no checkpoint to resume from. Throws: ConfigurationError (nothing was changed),
/// JobError.
std::optional<Loaded> load_checkpoint(const LoadTarget& target);

/// Returns what a job that resumes from `start` leaves out: what its checkpoint does, and what
/// `given` adds. What has been read stays as it was. Throws: ConfigurationError on all ranks.
data::SkippedSamples skipped_after(const Host& host, const data::SkippedSamples& given,
                                   const data::SkippedSamples& recorded,
                                   const TrainingProgress& start);
/// Collective. Returns what the newest checkpoint of --load that can be read leaves out of the
/// data.
std::string newest_skipped_samples(const Context& context);

/// Collective. Returns the newest step up to `step` that was the same when it was computed twice,
/// as the newest checkpoint of --load up to `step` says; -1: none.
Index newest_verified_step(const Context& context, Index step);

/// Whether --save and --load name the same directory, however they are written.
bool saves_where_it_loads(const CheckpointOptions& options);

/// What is found of the tokenizer that a run keeps of the model of Hugging Face with which it
/// began. Its manifests name none where the run was imported by an earlier version, or trained on
/// data without a sidecar. Each is "" where there is nothing to say, and one line.
struct TokenizerFindings {
  std::string difference;  // as a sentence of differences(), which does not have it
  std::string hint;        // continues the sentence that names both tokenizers, here or there
  std::string doubt;       // why nothing can be compared
};
/// Compares that tokenizer with the job's. `checkpoint`: a step of `run`. `identity`: that of the
/// job, which may name a tokenizer; `files`: those that its entries describe.
TokenizerFindings compare_tokenizers(const Manifest& checkpoint, const KeyValues& identity,
                                     const std::map<std::string, std::string>& files,
                                     const std::string& run);

}  // namespace trireme::checkpoint
