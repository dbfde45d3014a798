// What ranks report of themselves to the supervisor: signs of GPUs (docs/gpu/health.md), and silent
// corruption.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/records/ledger.h"
#include "launch/supervisor/records/nodes.h"
#include "runtime/observe/gpu_health/health_rules.h"

namespace trireme::supervisor {

/// What a rank has found of its GPU while it trained.
struct GpuSign {
  std::string host;  // as the list of hosts names it; empty: this machine, which no list names
  observe::HealthAction action = observe::HealthAction::report;
  std::string text;
};

/// What the ranks of an attempt have written into `folder`. `hosts`: of the attempt, which has
/// `ranks`. A host that calls itself otherwise than the list does is found by its rank.
std::vector<GpuSign> read_gpu_signs(const std::string& folder, const std::vector<Host>& hosts,
                                    Index ranks);

bool has_sign(const std::vector<GpuSign>& signs, observe::HealthAction action);
/// 3 points for what is fatal, at once in quarantine; 0 for the rest, which is only shown. A host
/// that is named twice for one thing is blamed once.
std::vector<Blame> blame_for(const std::vector<GpuSign>& signs);

// Ranks of a job whose data replicas differ write what each held to RUN/replicas.jsonl, and whose
// bits were wrong where that is decided (docs/concepts/silent_corruption.md).

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
