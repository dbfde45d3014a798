// Machine: the Launcher of a real run. It starts mpirun in a session of its own, adopts and ends
// the orphans that mpirun leaves, and keeps what the job prints.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <set>
#include <string>

#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/decide/launcher.h"
#include "launch/supervisor/machine/output.h"
#include "launch/supervisor/machine/post_mortem.h"
#include "launch/supervisor/machine/progress.h"
#include "launch/supervisor/machine/rank_watch.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/machine/scheduler.h"
#include "launch/supervisor/machine/terminal.h"
#include "runtime/core/process/child.h"

namespace trireme::supervisor {

/// Every process of a run has it in its environment; its value is unlike that of any other run.
inline const std::string run_variable = "TRIREME_RUN_KEY";
/// Every process of a command of --on-event or --on-quarantine has it; none of them is ended.
inline const std::string event_variable = "TRIREME_EVENT_KEY";

struct MachineOptions {
  Words mpirun = {"mpirun"};
  HostSource hosts;
  Index slots = 1;  // those of a host whose line does not say how many
  std::string remote_shell, on_event, on_quarantine;
  /// "short": that of trireme; "off" or empty: none; otherwise a command of the shell, whose exit
  /// code is 0 where the host TRIREME_HOST may be used.
  std::string preflight;
  Index log_bytes = Index{64} << 20;
  bool allow_chaos = false;  // `trireme chaos` may ask for faults
  double hang_s = 0;         // --hang-timeout; 0: not given
  bool echo = true;          // what the job prints goes to stdout as well
};

/// What runs now.
struct Scene {
  pid_t mpirun = -1;  // -1: no attempt runs
  Index attempt = 0, date = 0;
  std::string pages = {};        // directory of the status pages of ranks on this machine
  std::vector<Host> hosts = {};  // the attempt's hosts; none: this machine
  Index spares = 0;              // hosts at hand that could replace one
};

class Machine : public Launcher {
 public:
  /// Takes the signals of this process: create it before other threads. Throws: Error when another
  /// supervisor has the run.
  Machine(Job job, MachineOptions options);
  /// Ends what is left of an attempt.
  ~Machine() override;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Returns what the ledger said when this process took the run. Ends what an earlier supervisor
  /// left.
  History take_over(const std::string& new_run_id);

  RunFiles& files() { return *files_; }

  double now() const override;
  Index date() const override;
  std::string loss_of_run() const override;
  std::vector<Host> hosts() const override;
  std::unique_ptr<Pending<Fitness>> preflight(const std::vector<Host>& hosts,
                                              bool thorough) override;
  std::unique_ptr<Pending<std::vector<Layout>>> check_layouts(
      const std::vector<std::string>& options, const std::vector<Index>& ranks) override;
  void show_nodes(const std::vector<NodeState>& states,
                  const std::vector<UnfitHost>& unfit) override;
  void log(const std::string& line) override;
  void notify(const std::string& event, const std::string& line, const Json& details) override;
  void start(const AttemptPlan& plan) override;
  Observation observe(double seconds) override;
  void request_stop() override;
  void end_all() override;
  std::vector<GpuSign> gpu_signs() const override;
  std::vector<SlowHost> slow_hosts() const override;
  Evidence evidence() const override;
  std::unique_ptr<Pending<std::vector<std::string>>> find_unreachable() override;

  /// Has this done at each observation, also where nothing has happened (launch/chaos).
  void at_each_observation(std::function<void()> act) { at_each_observation_ = std::move(act); }
  Scene scene() const;
  const Paths& paths() const { return paths_; }
  /// Returns the variable that each process of the run has in its environment, "NAME=VALUE".
  std::string variable() const { return run_variable + "=" + key_; }

  /// Returns whether SIGTERM, SIGINT, SIGHUP or trireme stop asked for the end.
  bool stopped_by_user() const { return stop_seen_ || ended_by_signal_; }

 private:
  void start_command(const std::string& option, const std::string& command, Words variables);
  void read_signals(Observation& seen);
  void read_stop_file(Observation& seen);
  Index spare_hosts() const;
  Words watch_ranks(const AttemptPlan& plan);
  bool mpirun_runs() const { return mpirun_ && !mpirun_end_; }
  void take_output(std::string_view text);
  void reap();

  Terminal terminal_;  // outlives all that says something
  const Job job_;
  const MachineOptions options_;
  const Paths paths_;
  std::unique_ptr<Lease> lease_;
  std::unique_ptr<JobFiles> files_;
  std::function<void()> at_each_observation_;
  std::vector<NodeState> shown_;  // the states in nodes.json
  std::string key_;
  PrivateDirectories own_;  // the attempt's directories
  int signals_ = -1;        // signalfd
  std::set<pid_t> family_;  // programs that this process has started and that have not ended

  // These are of the attempt.
  Index attempt_ = 0, began_ = 0, ranks_ = 0;
  std::vector<Host> hosts_;
  std::unique_ptr<Child> mpirun_;
  std::optional<ChildEnd> mpirun_end_;
  std::unique_ptr<OutputLog> log_;
  EvidenceReader reader_;
  OutsideBoxes outside_;  // passes on what is shown
  std::string dead_rank_was_;
  OomKills oom_kills_;  // the counts when it began
  MetricsTail metrics_;
  bool printed_ = false;
  std::vector<std::string> slow_;          // ranks that were slow when it ended
  double gpus_per_rank_ = -1;              // the number that they have said; -1: they have not
  std::unique_ptr<RankWatch> rank_watch_;  // null where no connections can be taken

  // Sessions that are no attempt's: those of this process, of children that it had before, and of
  // --on-event.
  std::set<pid_t> others_;
  std::list<Child> commands_;  // shells of --on-event and --on-quarantine that have not ended
  bool said_too_many_ = false;
  bool stop_seen_ = false, now_seen_ = false, ended_by_signal_ = false;
  mutable double mine_checked_ = -1;
  DurableWatch durable_;
};

}  // namespace trireme::supervisor
