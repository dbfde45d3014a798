// Which rank is wrong when data replicas hold different bits: records of what each held, and the
// rule by which they decide. With three replicas one record is enough. With two the step is done
// again, maybe on other hosts, and both records together decide: sums have a fixed order, so the
// rank that is right repeats its bits. No communication here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::train {

/// The hashes of one bucket whose replicas differ, or have differed.
struct BucketVote {
  std::string place;  // "stage 0, tensor rank 1, bucket 3": the same in all runs of one layout
  std::string names;  // names of its parameters, for people
  std::vector<std::uint64_t> hashes;  // by data rank
  std::vector<int> ranks;             // their world ranks
};

/// A rank in an attempt of a supervised run; attempt 0: without a supervisor.
struct ReplicaHolder {
  Index attempt = 0;
  int rank = 0;
  std::string host;
  friend bool operator==(const ReplicaHolder&, const ReplicaHolder&) = default;
};

/// A line of the file.
struct ReplicaRecord {
  Index step = 0, attempt = 0;
  std::string layout;
  std::vector<std::string> hosts;  // by world rank
  std::vector<BucketVote> votes;
  std::vector<ReplicaHolder> wrong;  // what the records decide; empty: nothing
  /// The newest clean step before a step done twice; -1: none is known; nothing: it is not such a
  /// record.
  std::optional<Index> clean = {};
  /// Returns whether the record is of a step done twice (--verify-step), which no replica decides.
  bool of_step_done_twice() const { return layout.empty(); }
};

/// Returns one line of JSON.
std::string to_line(const ReplicaRecord& record);
/// Returns nothing where the text is no such line, as when a crash has cut it.
std::optional<ReplicaRecord> parse_replica_record(std::string_view line);

/// Returns the ranks whose bits are not those that most hold, bucket by bucket, where one hash is
/// held more often than any other. Returns none of a record in which no rank has that hash: wrong
/// bits had reached the others there through gradients. `records`: of one step and layout.
std::vector<ReplicaHolder> outvoted(const std::vector<ReplicaRecord>& records);

/// Returns the records at the end of the file that have not decided yet: of one step and this
/// layout.
std::vector<ReplicaRecord> undecided(std::string_view file, const std::string& layout);

/// Returns "rank 2 on n1, rank 5 on n3".
std::string describe(const std::vector<ReplicaHolder>& holders, Index this_attempt);

/// The file of these records in the --save directory.
inline constexpr const char* replica_file_name = "replicas.jsonl";

}  // namespace trireme::train
