// When bits are compared, and what ranks do when they differ: agree on it, record what each held,
// and say who is wrong. ReplicaChecks compares data replicas (--check-replicas), StepVerification
// both times that a step is computed (--verify-step).
#pragma once

#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/optim/replica_hashes.h"
#include "runtime/optim/step_hashes.h"
#include "runtime/train/numerics/replica_votes.h"

namespace trireme::train {

class ReplicaChecks {
 public:
  /// Collective. Reads what an earlier job has left undecided in the --save directory. `hashes`:
  /// null where nothing is compared.
  ReplicaChecks(const Context& context, const FlatLayout& flat, ReplicaHashes* hashes);

  bool on() const { return hashes_ != nullptr; }
  /// Whether a check is due after this step: every --check-replicas steps, and at a step that is
  /// done again to decide who was wrong.
  bool due(Index step) const;
  /// Collective, after an update that is queued. Compares all replicas; does nothing when this step
  /// was compared already. Returns what is wrong, the same on every rank; empty: nothing. Allocates
  /// only where something is wrong, or is decided.
  std::string check(Index step);
  /// The newest step whose replicas agree; -1: none was compared.
  Index last_clean() const { return last_clean_; }

 private:
  Index differing_buckets() const;
  std::vector<BucketVote> votes() const;
  ReplicaRecord gather(Index step) const;
  std::string differ(Index step);
  void decide(Index step);

  const Context& context_;
  const FlatLayout& flat_;
  ReplicaHashes* hashes_;
  std::string layout_;
  std::vector<ReplicaRecord> undecided_;  // the same on every rank
  Index last_clean_ = -1;
};

/// StepVerification: every N-th step is computed twice from one state, and the bits of both times
/// compared (--verify-step). Where they differ, ranks agree on it, record it, and say who computed
/// wrongly.
class StepVerification {
 public:
  /// `hashes`: null where no step is computed twice.
  StepVerification(const Context& context, const FlatLayout& flat, StepHashes* hashes)
      : context_(context), flat_(flat), hashes_(hashes) {}

  /// Decides whether this step is computed twice; a step that is `profiled` is not.
  void begin(Index step, bool profiled) {
    twice_ = hashes_ != nullptr && !profiled && step % context_.options().verify_step == 0;
  }
  /// Null in a step that is computed once.
  StepHashes* hashes() const { return twice_ ? hashes_ : nullptr; }
  /// Collective, after the update of a step that was computed twice. Returns what is wrong, the
  /// same on every rank; empty: nothing. Allocates only where something is wrong.
  std::string check(Index step);
  /// The newest step whose bits were the same both times, as what is resumed from says.
  void resume_from(Index last_clean) { last_clean_ = last_clean; }
  /// The newest step whose bits were the same both times; -1: none was computed twice.
  Index last_clean() const { return last_clean_; }

 private:
  const Context& context_;
  const FlatLayout& flat_;
  StepHashes* hashes_;
  bool twice_ = false;
  Index last_clean_ = -1;
};

}  // namespace trireme::train
