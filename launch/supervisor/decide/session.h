// Session: what the parts of a supervisor share: its settings, the ledger, and whether it was asked
// to stop. supervisor.cpp defines its functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/supervisor/decide/launcher.h"
#include "launch/supervisor/records/ledger.h"
#include "launch/supervisor/records/nodes.h"

namespace trireme::supervisor {

struct Settings {
  Index nodes = 1, ranks_per_node = 1, spares = 0;
  bool has_hosts = false;  // hosts come from a list, which may be empty for a while
  Index min_nodes = 0;     // the number that is enough where hosts are few; 0: `nodes`
  std::vector<std::vector<std::string>> also_layouts = {};  // options that replace those of PROGRAM
  Index max_restarts = 100;
  bool replace_stragglers = false;  // it replaces hosts that stay slow, while a spare is there
  bool grow = false;                // it takes a larger layout where hosts come back
  double grow_interval_s = 600;     // between two looks at the hosts
  double hang_s = 0;                // the time without progress that is a hang; 0: none is
  double grace_s = 0;       // between the request to stop and the end by force; 0: as saves take
  double time_limit_s = 0;  // the time after which this supervisor stops the job; 0: none
  double wait_nodes_s = 0;  // how long it waits for hosts, where too few are healthy
  Index quarantine_s = quarantine_window_s;  // how long a host stays out
  bool auto_saves = false;                   // PROGRAM has --save-interval auto
  double save_seconds = 0;                   // its --save-interval-seconds; 0: not given
  bool snapshots = false;      // PROGRAM keeps them in memory; they may be newer than its files
  bool watched = true;         // PROGRAM is trireme's: it writes metrics and checkpoints
  std::string program;         // its name
  std::string metrics;         // its file of steps
  std::string ckpt_step = {};  // its --ckpt-step; empty: not given
  std::string run;             // id of the run, where it is a new one
  Index pid = 0;
  std::string host;  // the host of this process

  bool elastic() const { return min_nodes > 0 && min_nodes < nodes; }
  Index least_nodes() const { return elastic() ? min_nodes : nodes; }
};

constexpr double most_wait_s = 0.05;  // the longest wait without a look at the clock
constexpr double same_request_s = 2;  // a request to stop again within it is the same request

/// Returns who asked: "SIGTERM", or "trireme stop --now".
std::string name_of_request(int signal);

/// How a session ends.
struct End {
  int exit_code = 0;
  std::string why;
};

struct Session {
  Session(Launcher& the_launcher, RunFiles& the_files, Settings the_settings, History the_history);

  /// Appends a line to the ledger. It is durable when this returns.
  template <class Line>
  void record(const Line& line) {
    files.append(to_json(line));
    history.add(line);
  }
  /// Returns the points of all hosts now.
  std::vector<NodeState> nodes() const { return node_states(history, launcher.date()); }

  void add_signals(const std::vector<int>& signals);
  bool is_time_over() const;
  void stop_with(int signal);
  /// Waits once between attempts, at most so long. Returns false where it was asked to stop.
  bool observe(double seconds);
  /// Waits between attempts. Returns false where it was asked to stop.
  bool wait(double seconds);

  Launcher& launcher;
  RunFiles& files;
  const Settings settings;
  History history;
  const double began;  // when this supervisor began
  int stop = 0;        // the signal that asked to stop; 0: none
  double stop_since = 0;
  int force = 0;  // the signal that asked to end at once
};

/// What each part of the supervisor works with.
class Part {
 protected:
  explicit Part(Session& session)
      : session_(session),
        launcher_(session.launcher),
        files_(session.files),
        settings_(session.settings),
        history_(session.history) {}

  Session& session_;
  Launcher& launcher_;
  RunFiles& files_;
  const Settings& settings_;
  const History& history_;
};

}  // namespace trireme::supervisor
