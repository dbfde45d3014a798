// Interventions: why the supervisor has a job that trains save and end, to continue on other hosts.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "launch/supervisor/decide/attempt_watch.h"
#include "launch/supervisor/decide/hosts.h"

namespace trireme::supervisor {

/// An attempt that could have more ranks.
struct Growth {
  Index ranks_now = 0, ranks = 0;
  double remaining_s = 0;          // how long the run still takes, as fast as now
  double save_s = 0, start_s = 0;  // what a restart costs
};
/// Returns whether a restart gains more than three times what it costs.
bool is_worth_a_restart(const Growth& growth);

/// One reason to end one attempt.
class Intervention {
 public:
  virtual ~Intervention() = default;
  /// Called once an interval while the attempt does steps. Returns what to ask of the job; nothing
  /// where the job continues.
  virtual std::optional<Move> consider(const AttemptWatch& attempt) = 0;
};

/// Returns those that the settings ask for, in the order in which they are considered: more hosts
/// (--grow), a host whose GPU asks for a repair soon (docs/gpu/health.md, action "leave"), and a
/// host that stays slow (--on-straggler replace).
std::vector<std::unique_ptr<Intervention>> interventions_in(const AttemptWatch& attempt,
                                                            Session& session, Hosts& hosts,
                                                            Layouts& layouts);

}  // namespace trireme::supervisor
