// What the supervisor makes of silent corruption: ranks of a job whose data replicas differ write
// what each held to RUN/replicas.jsonl, and whose bits were wrong where that is decided
// (docs/concepts/silent_corruption.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/records/ledger.h"

namespace trireme::supervisor {

/// A rank that held wrong bits, and in which attempt it did.
struct WrongRank {
  Index attempt = 0, rank = 0;
};
/// Those that attempt `written_in` has named. Never throws for what the file holds.
std::vector<WrongRank> wrong_ranks(const std::string& run, Index written_in);

/// After a step done twice was found corrupt by attempt `written_in`: the newest one before that
/// was clean, -1 where it knew of none. Nothing where all that is saved was compared. Never throws
/// for what the file holds.
std::optional<Index> newest_clean_step(const std::string& run, Index written_in);

/// The hosts that these ranks ran on. None where the attempt had this machine only.
std::vector<std::string> hosts_of(const std::vector<WrongRank>& ranks, const History& history);

/// Whether the last attempt ended because replicas differ, and left open which: then the next one
/// runs with its hosts in another order, so that the bits of a host appear on another rank.
bool swaps_hosts(const History& history);

}  // namespace trireme::supervisor
