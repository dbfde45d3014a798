// The supervisor: starts attempts until the run is finished, is asked to stop, or does not get on.
// docs/concepts/recovery.md draws its states.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/supervisor/decide/judge.h"
#include "launch/supervisor/decide/world.h"
#include "launch/supervisor/records/goodput.h"

namespace trireme::supervisor {

struct Settings {
  Index nodes = 1, ranks_per_node = 1, spares = 0;
  bool has_hosts = false;  // from a list, which may be empty for a while
  Index min_nodes = 0;     // where hosts are few, so many are enough; 0: as many as `nodes`
  std::vector<std::vector<std::string>> also_layouts = {};  // options that replace those of PROGRAM
  Index max_restarts = 100;
  bool replace_stragglers = false;  // hosts that stay slow, while a spare is there
  bool grow = false;                // a larger layout where hosts come back
  double grow_interval_s = 600;     // between two looks at the hosts
  double hang_s = 0;                // nothing moved for so long: a hang; 0: never
  double grace_s = 0;       // from the request to stop to the end by force; 0: as saves take
  double time_limit_s = 0;  // of this supervisor; then it stops the job; 0: none
  double wait_nodes_s = 0;  // for hosts, where too few are healthy
  Index quarantine_s = quarantine_window_s;  // how long a host stays out
  bool auto_saves = false;                   // PROGRAM has --save-interval auto
  double save_seconds = 0;                   // and this --save-interval-seconds; 0: not given
  bool snapshots = false;      // PROGRAM keeps some in memory, which may be newer than its files
  bool watched = true;         // PROGRAM is trireme's: it writes metrics and checkpoints
  std::string program;         // its name
  std::string metrics;         // its file of steps
  std::string ckpt_step = {};  // its --ckpt-step; empty: not given
  std::string run;             // id of the run, where it is a new one
  Index pid = 0;
  std::string host;  // of this process
};

/// An attempt that could have more ranks.
struct Growth {
  Index ranks_now = 0, ranks = 0;
  double remaining_s = 0;          // of the run, as fast as now
  double save_s = 0, start_s = 0;  // what a restart costs
};
/// Whether it gains more than three times what it costs.
bool is_worth_a_restart(const Growth& growth);

/// Unlike that of any other run.
std::string new_run_id(Index date, Index pid);

class Supervisor {
 public:
  Supervisor(World& world, Settings settings, History history);
  /// Returns the exit code of `trireme run`. Throws: Error when the ledger cannot be written, or
  /// another supervisor has taken over.
  int run();

 private:
  struct Watch;                           // what was seen of the current attempt
  static constexpr double look_s = 0.05;  // the longest wait without a look at the clock
  void begin();
  void close_torn_attempt();
  bool pick(AttemptPlan& plan);
  Index step_to_go_back_to(bool resumes);
  bool pick_listed_hosts(AttemptPlan& plan);
  bool pick_healthy_hosts(AttemptPlan& plan);
  bool choose_hosts(AttemptPlan& plan, const std::string& left = "");
  bool elastic() const { return settings_.min_nodes > 0 && settings_.min_nodes < settings_.nodes; }
  std::string why_not_elastic();
  bool with_layouts(const std::function<void()>& use);
  bool await_layouts(const std::function<void()>& use);
  using PickSome = std::function<std::vector<Host>(Index count)>;
  void take_layout(AttemptPlan& plan, const PickSome& pick_some);
  bool refuse_if_it_cannot_run(const AttemptPlan& plan);
  std::string describe_layout(const AttemptPlan& plan);
  std::optional<Fitness> await_preflight(const std::vector<Host>& hosts, bool thorough);
  std::vector<Host> not_checked(const std::vector<Host>& hosts) const;
  bool pass_preflight(const std::vector<Host>& hosts);
  std::vector<Host> worth_a_long_preflight() const;
  bool lift_quarantines();
  void release(const std::string& host);
  int end_without_hosts();
  std::string too_few_hosts() const;
  Facts attempt(const AttemptPlan& plan);
  Watch begin_attempt(const AttemptPlan& plan);
  std::string describe_origin(const Watch& watch) const;
  void say_origin(const Watch& watch);
  void start(const AttemptPlan& plan);
  Facts facts_of(const Watch& watch, const AttemptPlan& plan);
  std::vector<std::string> await_unreachable(const Evidence& evidence);
  void show_nodes(const std::vector<NodeState>& before);
  void write_nodes();
  void take(Watch& watch, const Sight& sight, double looked_at);
  void note_signals(const Sight& sight);
  void note_loss_spike(const Step& step);
  void consider_growth(Watch& watch, const AttemptPlan& plan);
  void consider_leaving(Watch& watch, const AttemptPlan& plan);
  void consider_stragglers(Watch& watch, const AttemptPlan& plan);
  std::string why_it_stays(const Watch& watch, const SlowHost& slow) const;
  std::optional<bool> can_do_without(const AttemptPlan& plan, const std::string& host);
  void leave(Watch& watch, const Leave& line);
  std::vector<Host> without_left(const std::vector<Host>& hosts,
                                 const std::vector<NodeState>& states,
                                 const std::set<std::string>& left) const;
  double grace_s(const Watch& watch) const;
  void ask(Watch& watch);
  bool must_end(Watch& watch);
  AttemptEnded account(const Watch& watch, const Facts& facts) const;
  bool look_between_attempts(double seconds);
  bool wait(double seconds);
  int end(int code, const std::string& why);
  void take_releases();

  World& world_;
  const Settings settings_;
  History history_;
  double began_;                             // of this supervisor
  double last_ended_ = -1;                   // of the last attempt; -1: there was none
  double no_hosts_s_ = 0, preflight_s_ = 0;  // since then
  int stop_ = 0;                             // the signal that asked to stop; 0: none
  double stop_since_ = 0;
  int force_ = 0;             // the signal that asked to end at once
  std::vector<Host> listed_;  // when they were read last
  std::string why_no_list_;   // of hosts; empty: it was read
  Layouts layouts_;
  std::unique_ptr<Pending<std::vector<Layout>>> asked_;  // of the program; null: nothing
  LayoutQuestion asked_for_;
  std::string refused_;        // what the program said when it could not run on a smaller layout
  bool no_layout_ = false;     // is legal on the hosts at hand
  std::set<std::string> fit_;  // hosts that passed the preflight
  std::map<std::string, std::string> unfit_;  // hosts that did not, and why
  std::set<std::string> long_checked_;        // hosts that did not pass the long one
  double next_long_ = 0;                      // no long one before, as one could not be made
};

}  // namespace trireme::supervisor
