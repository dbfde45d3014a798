// AttemptWatch: what the supervisor sees of the attempt that runs: its steps, how fast they and the
// saves are, whether anything moves, and whether it obeys a request to stop.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/decide/judge.h"
#include "launch/supervisor/decide/session.h"
#include "launch/supervisor/records/goodput.h"

namespace trireme::supervisor {

/// How long the steps and the saves of an attempt take, as the supervisor sees them.
class Pace {
 public:
  /// Takes a step. `now`: when its line of metrics was seen.
  void step(Index number, double seconds, double now);
  /// Says that a step of this attempt is on disk: from its end until now it was saved.
  void durable(Index number, double now);

  double mean_step_s() const { return steps_ > 0 ? sum_s_ / static_cast<double>(steps_) : 0; }
  /// Returns the longest of the last 20 steps; 0: none was done.
  double longest_step_s() const;
  /// Returns the time of the longest save; 0: none was seen.
  double save_s() const { return save_s_; }
  /// Returns how many saves were seen; save_interval(), the mean number of steps between two, or 0
  /// where fewer than two were seen.
  Index saves() const { return saves_; }
  double save_interval() const;

 private:
  struct Done {
    Index number;
    double at;
  };
  std::deque<double> recent_;
  std::deque<Done> open_;  // steps after the newest durable one, the last few thousand
  Index steps_ = 0, saves_ = 0, first_saved_ = 0, last_saved_ = 0;
  double sum_s_ = 0, save_s_ = 0;
};

/// Returns the time from the request to stop to the end by force: three saves and two steps, at
/// least 20 s; 10 min where either has not been measured.
double measured_grace_s(double save_s, double step_s);

/// Why a job is asked to save and end: to continue on other hosts.
struct Move {
  std::string event, line;  // for people
  Json details;
  std::optional<Leave> leaves = {};  // the host to do without; nothing: it continues on more hosts
};

class AttemptWatch : Part {
 public:
  /// `resumed`: the step that the attempt starts from.
  AttemptWatch(Session& session, const AttemptPlan& plan, Index resumed);

  const AttemptPlan& plan() const { return plan_; }
  double began() const { return began_; }
  Index resumed() const { return facts_.resumed; }
  Index last_step() const { return facts_.last_step; }
  bool launcher_ended() const { return launcher_ended_; }
  /// Returns whether it does steps, and was not asked to stop.
  bool trains() const { return !asked_ && first_step_ >= 0; }
  /// Returns the time that the steps up to `step` will take, as fast as now.
  double seconds_to(Index step) const;
  double save_s() const { return pace_.save_s(); }
  /// Returns the time from its start to its first step.
  double start_s() const { return first_step_ - began_; }

  /// Takes what has happened since `looked_at`.
  void update(const Observation& seen, double looked_at);
  /// Acts on requests to stop and on hangs. Returns whether the attempt is to be ended by force.
  bool must_end();
  /// Asks the job to save and end, to continue on other hosts.
  void move(const Move& move);
  /// Returns what was seen of the attempt, with the evidence of its end.
  Facts facts_at_end();
  /// Returns its line of the ledger.
  AttemptEnded account(const Facts& facts) const;
  double ended() const { return ended_; }

 private:
  void add_steps(const std::vector<Step>& steps, double now);
  void record_loss_spike(const Step& step);
  void log_origin() const;
  bool does_not_stop();
  bool does_not_move();
  void request_stop();
  double grace_s() const;

  const AttemptPlan plan_;
  const double began_;
  Facts facts_;
  Pace pace_;
  StepTimes times_;
  double first_step_ = -1;  // when it began; -1: it has not
  Index first_number_ = 0;  // the number of that step
  double last_sign_, ended_ = 0;
  Index seen_durable_ = 0;
  bool launcher_ended_ = false, printed_ = false;
  bool pages_ = false;      // status pages of its ranks are seen
  double last_pages_ = -1;  // when they were seen last; -1: never
  bool asked_ = false;      // it was asked to save and end
  double asked_at_ = 0, last_asked_ = 0;
  Index asked_step_ = 0;  // the last step when it was asked last
};

}  // namespace trireme::supervisor
