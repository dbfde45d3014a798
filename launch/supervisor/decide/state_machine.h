// The supervisor: starts attempts until the run is finished, is asked to stop, or does not get on.
// docs/concepts/recovery.md draws its states.
#pragma once

#include <functional>
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
  bool grow = false;             // a larger layout where hosts come back
  double grow_interval_s = 600;  // between two looks at the hosts
  double hang_s = 0;             // nothing moved for so long: a hang; 0: never
  double grace_s = 0;            // from the request to stop to the end by force; 0: as saves take
  double time_limit_s = 0;       // of this supervisor; then it stops the job; 0: none
  double wait_nodes_s = 0;       // for hosts, where too few are healthy
  Index quarantine_s = quarantine_window_s;  // how long a host stays out
  bool watched = true;  // PROGRAM is trireme's: it writes metrics and checkpoints
  std::string program;  // its name
  std::string metrics;  // its file of steps
  std::string run;      // id of the run, where it is a new one
  Index pid = 0;
  std::string host;  // of this process
};

enum class State {
  read_ledger,
  pick,
  preflight,
  launch,
  loading,
  training,
  saving,
  judge,
  quarantine,
  backoff,
  done,
  give_up
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
  /// The states in which it was, for tests.
  const std::vector<State>& states() const { return states_; }

 private:
  struct Watch;  // what was seen of the current attempt
  void enter(State state) { states_.push_back(state); }
  void begin();
  void close_torn_attempt();
  bool pick(AttemptPlan& plan);
  bool pick_listed_hosts(AttemptPlan& plan);
  bool pick_healthy_hosts(AttemptPlan& plan);
  bool choose_hosts(AttemptPlan& plan);
  bool elastic() const { return settings_.min_nodes > 0 && settings_.min_nodes < settings_.nodes; }
  std::string why_not_elastic();
  using PickSome = std::function<std::vector<Host>(Index count)>;
  void take_layout(AttemptPlan& plan, const PickSome& pick_some);
  bool refuse_if_it_cannot_run(const AttemptPlan& plan);
  std::string describe_layout(const AttemptPlan& plan);
  bool pass_preflight(const std::vector<Host>& hosts);
  std::string too_few_hosts() const;
  Facts attempt(const AttemptPlan& plan);
  Watch begin_attempt(const AttemptPlan& plan);
  Facts facts_of(const Watch& watch, const AttemptPlan& plan) const;
  void show_nodes(const std::vector<NodeState>& before);
  void take(Watch& watch, const Sight& sight, double looked_at);
  void note_signals(const Sight& sight);
  void consider_growth(Watch& watch, const AttemptPlan& plan);
  void consider_leaving(Watch& watch, const AttemptPlan& plan);
  std::vector<Host> without_left(const std::vector<Host>& hosts,
                                 const std::vector<NodeState>& states, Index count) const;
  double grace_s(const Watch& watch) const;
  void ask(Watch& watch);
  bool must_end(Watch& watch);
  AttemptEnded account(const Watch& watch, const Facts& facts, const Verdict& verdict) const;
  bool wait(double seconds);
  int end(int code, const std::string& why);
  void take_releases();

  World& world_;
  const Settings settings_;
  History history_;
  std::vector<State> states_;
  double began_;            // of this supervisor
  double last_ended_ = -1;  // of the last attempt; -1: there was none
  int stop_ = 0;            // the signal that asked to stop; 0: none
  double stop_since_ = 0;
  int force_ = 0;  // the signal that asked to end at once
  bool go_back_ = false;
  std::size_t listed_ = 0;   // hosts, when they were read last
  std::string why_no_list_;  // of hosts; empty: it was read
  Layouts layouts_;
  std::set<std::string> fit_, unfit_;  // hosts that passed the preflight, or did not
  std::set<std::string> leave_;        // hosts to do without where there are others
};

}  // namespace trireme::supervisor
