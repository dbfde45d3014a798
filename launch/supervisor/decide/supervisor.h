// The supervisor: starts attempts until the run is finished, is asked to stop, or does not get on.
// docs/concepts/recovery.md draws what it does.
#pragma once

#include <string>

#include "launch/supervisor/decide/attempt_watch.h"
#include "launch/supervisor/decide/hosts.h"
#include "launch/supervisor/decide/layouts.h"
#include "launch/supervisor/decide/session.h"

namespace trireme::supervisor {

/// Returns an id unlike that of any other run.
std::string new_run_id(Index date, Index pid);

class Supervisor {
 public:
  Supervisor(Launcher& launcher, RunFiles& files, Settings settings, History history);
  /// Returns the exit code of `trireme run`. Throws: Error when the ledger cannot be written, or
  /// another supervisor has taken over.
  int run();

 private:
  void begin();
  void close_torn_attempt();
  AttemptPlan plan_on(AttemptPlan hosts);
  Facts attempt(const AttemptPlan& plan);
  AttemptWatch begin_attempt(const AttemptPlan& plan);
  std::string describe_origin(const AttemptPlan& plan, Index resumed) const;
  void start(const AttemptPlan& plan, Index resumed);
  void watch_until_it_ends(AttemptWatch& watch);
  int end(const End& end);

  Session session_;
  Launcher& launcher_;
  RunFiles& files_;
  const Settings& settings_;
  const History& history_;
  Layouts layouts_;
  Hosts hosts_;
  double last_ended_ = -1;  // when the last attempt ended; -1: there was none
};

/// Returns the step that an attempt starts from where that is not the newest: after gradients that
/// were not finite, and after silent corruption; -1: the newest. `resumes`: what PROGRAM was
/// started from is past. The ledger decides, so that a supervisor that is started again goes back
/// as well.
Index step_to_go_back_to(const Session& session, bool resumes);

}  // namespace trireme::supervisor
