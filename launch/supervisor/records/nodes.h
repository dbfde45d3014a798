// Which hosts an attempt may use: points for what hosts were blamed for, quarantine, and the
// choice.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "launch/supervisor/records/ledger.h"

namespace trireme::supervisor {

struct Host {
  std::string name;
  Index slots = 1;
};
/// Reads lines of "HOST", "HOST slots=N" or "HOST:N"; '#' begins a comment. Throws: Error that
/// names the line.
std::vector<Host> parse_hosts(const std::string& text, Index default_slots);
/// Returns the name in `hosts` of the one on which a rank runs: found by the name that this host
/// has for itself (empty: not known), else by its place, with so many ranks on each. Empty without
/// hosts.
std::string listed_name(const std::string& own_name, Index rank, const std::vector<Host>& hosts,
                        Index ranks_of_each);

/// A host that does not pass the preflight.
struct UnfitHost {
  std::string host, why;
};

constexpr Index quarantine_points = 3;
constexpr Index quarantine_window_s = 24 * 3600;

struct NodeState {
  std::string host;
  Index points = 0;   // those of the last 24 hours, or with which it came into quarantine
  bool lost = false;  // one of them was for more than a rank that died
  std::vector<std::string> reasons;
  bool quarantined() const { return points >= quarantine_points; }
};
/// Returns every host that was blamed since its release, or since its quarantine was over. Ranks
/// that die or hang with one signature on three hosts within 24 hours do so by a fault of the
/// program: that counts for none of the hosts. `now`: seconds since 1970; a blame from the future,
/// as after a clock was set back, counts as one of now.
std::vector<NodeState> node_states(const History& history, Index now);
Json to_json(const std::vector<NodeState>& states);

/// Returns the hosts to do without (Leave) since their release, for as long as a quarantine lasts.
std::set<std::string> hosts_to_leave(const History& history, Index now);

/// Picks `count` of `hosts`: those of `before` keep their places, so that only the ranks of a host
/// that was replaced move. Where there are enough others, a host that was lost once is left out,
/// and one in quarantine. Where there are not, hosts in quarantine are taken again if all that
/// happened there was that ranks died. Empty: too few.
std::vector<Host> pick_hosts(const std::vector<Host>& hosts, const std::vector<NodeState>& states,
                             const std::vector<std::string>& before, Index count);

}  // namespace trireme::supervisor
