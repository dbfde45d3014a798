// ReplicaChecks: when the bits of data replicas are compared, and what ranks do when they differ:
// agree, record what each held, and say who is wrong (--check-replicas).
#pragma once

#include <string>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/optim/replica_hashes.h"
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

// The file replicas.jsonl of the --save directory: what ranks held or computed when bits differed.

/// Returns the attempt of the supervisor that started this job; 0: none did.
Index this_attempt();

/// Its newest records. Empty where there is no --save directory, or no file. Throws: Error when it
/// cannot be read.
std::string read_records(const Context& context);
/// On rank 0. Where it cannot be written, a warning says why.
void append_record(const Context& context, const ReplicaRecord& record);

}  // namespace trireme::train
