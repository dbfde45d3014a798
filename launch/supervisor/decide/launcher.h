// Launcher and RunFiles: how the supervisor starts and observes a job, and what it reads and writes
// of a run. The real ones start mpirun (machine.h) and use the directory of the run
// (run_directory.h); tests have their own, with a clock that they set.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/records/ledger.h"
#include "launch/supervisor/records/nodes.h"
#include "launch/supervisor/records/rank_reports.h"

namespace trireme::supervisor {

struct Step {
  Index number = 0;
  double seconds = 0;
  bool spike = false;  // it completes a spike of the loss
  double loss = 0;     // the loss that completes a spike
};

/// Why no rank of the attempt moves, as their status pages show it.
struct Hang {
  std::string sentence;
  std::string kind = {};                // equal for hangs that look alike
  std::vector<std::string> hosts = {};  // the hosts to blame
  bool end = false;                     // the job is stuck: it is to be ended
  bool all_have_finished = false;       // only their exit is stuck
  bool over = false;                    // the job moves again
};

/// What has happened since the last observation.
struct Observation {
  std::vector<Step> steps;       // done by the attempt
  Index durable = 0;             // the newest step on disk
  bool output = false;           // the attempt has printed
  std::vector<int> signals;      // SIGTERM, SIGINT, SIGUSR1: asks to stop; SIGKILL: stop --now
  std::optional<int> code;       // mpirun has ended: its exit code, or 128 + its signal
  bool launcher_killed = false;  // a signal has ended mpirun itself
  bool pages = false;            // status pages of ranks, which show hangs, are seen
  std::optional<Hang> hang = {};
};

/// What is found of an attempt whose processes are all gone: in its output, in the files of its
/// ranks, and in the last status pages.
struct Evidence {
  std::string first_error = {}, lost_host = {}, rank_host = {};
  std::string last_line = {};  // the last line of the program, whatever it says
  std::string box = {};        // the first line of what mpirun says of the end; empty: nothing
  std::string refusal = {};    // why mpirun has started nothing, with the remedy
  int dead_rank = -1, dead_signal = 0;  // the rank that a signal has ended, as mpirun noticed
  std::string dead_rank_was = {};  // "rank 2 (n1, pp0 dp2 tp0), in \"attention backward\", step 3"
  bool counts_kills_for_memory = false;  // the kernel counts them: without a count there were none
  bool daemon_lost = false;              // on a host that the launcher does not name
  bool end_missed = false;         // a rank ended with 0, and its daemon did not see MPI_Finalize
  std::string out_of_memory = {};  // who says that the kernel ended a process for lack of memory
  double gpus_per_rank = -1;       // 0 on CPUs; -1: the job has not said it
  std::vector<WrongRank> wrong_ranks = {};  // ranks that held other bits than their replicas
  std::optional<Index> clean = {};          // newest_clean_step()
  std::vector<std::string> slow = {};       // ranks and nodes, a line each
  std::vector<GpuSign> gpu_signs = {};
};

/// A host with a rank that is slower than others of its kind.
struct SlowHost {
  std::string host, why;
  double ratio = 1;  // the time of the slowest such rank over that of the others
};

/// What the program says of a number of ranks.
struct Layout {
  Index ranks = 0;
  bool legal = false;
  Index data = 0, pipeline = 0, tensor = 0;
  Index rank_bytes = 0;      // planned memory of the rank that needs most; 0: unknown
  std::string problem = {};  // the first one, where it is not legal
  std::size_t choice = 0;    // 0: PROGRAM as given; else --also-layout of this number
  bool planned = false;      // --plan auto chose it: other numbers of ranks may have another unit
  Index unit() const { return tensor * pipeline; }
  std::string text() const;  // returns "pp1 dp2 tp2"
};

struct AttemptPlan {
  Index attempt = 0, ranks = 0;
  std::vector<Host> hosts = {};  // empty: this machine
  bool has_saved = false;        // an attempt of an earlier supervision has made a durable step
  bool resumes = false;  // an attempt of this one has: what PROGRAM was started from is past
  Index step = -1;       // the step that it starts from; -1: the newest
  Index slots = 0;       // ranks on a host, the last one may have fewer; 0: all have equally many
  Index idle = 0;        // slots of hosts at hand that the layout leaves over
  Layout layout = {};    // what the program has said, where it was asked
  bool fewer = false;    // it has fewer hosts than --nodes
  std::vector<std::string> options = {};  // --also-layout; they replace those of PROGRAM
  SaveRule saves = {};                    // when it saves, with --save-interval auto
};

struct Fitness {
  std::vector<UnfitHost> unfit = {};
  std::string not_checked = {};  // why no host could be checked; empty: all were
};

/// What a process beside the job finds out. Destroying it ends the process.
template <class T>
class Pending {
 public:
  virtual ~Pending() = default;
  /// Returns nothing where it is not known yet. Launcher::observe() returns when the process ends.
  virtual std::optional<T> poll() = 0;
};

/// The files of a run: the ledger, what the job has saved, and what users have asked for.
class RunFiles {
 public:
  virtual ~RunFiles() = default;

  /// Appends a line to the ledger. It is durable when this returns. Throws: Error.
  virtual void append(const Json& line) = 0;
  /// Returns committed steps whose manifest and file sizes hold, newest first; two at most.
  virtual std::vector<Index> durable_steps() const = 0;
  /// Returns the newest such step up to `step`; -1: there is none.
  virtual Index newest_durable_up_to(Index step) const = 0;
  /// Returns whether the newest such step was made at this date or later.
  virtual bool has_saved_since(Index date) const = 0;
  /// Returns --train-iters; -1: not known yet.
  virtual Index iterations() const = 0;
  /// Returns nothing known where PROGRAM has not said it, or not yet.
  virtual Started started_from(Index attempt) const = 0;
  /// Returns whether the metrics or the newest checkpoint say that all steps are done.
  virtual bool training_is_finished() const = 0;
  /// Returns the path of the file with what an attempt prints.
  virtual std::string log_of(Index attempt) const = 0;
  /// Returns the hosts that users gave back.
  virtual std::vector<std::string> released_hosts() const = 0;
  /// Forgets that they did: the ledger has it.
  virtual void forget_release(const std::string& host) = 0;
};

/// The processes of a run on this machine and on others, and the clock by which they are watched.
class Launcher {
 public:
  virtual ~Launcher() = default;

  virtual double now() const = 0;  // seconds, steady: does not jump
  virtual Index date() const = 0;  // seconds since 1970, which may jump
  /// Returns why this process is no longer the supervisor of the run; empty: it is.
  virtual std::string loss_of_run() const = 0;

  /// Writes a line for people.
  virtual void log(const std::string& line) = 0;
  /// Writes a line for people, and runs the command of --on-event with it, without waiting for
  /// that.
  virtual void notify(const std::string& event, const std::string& line, const Json& details) = 0;
  /// Writes nodes.json. `unfit`: hosts that do not pass the preflight.
  virtual void show_nodes(const std::vector<NodeState>& states,
                          const std::vector<UnfitHost>& unfit) = 0;

  /// Returns the hosts at hand, spares included; empty: this machine only, or an empty list.
  /// Throws: Error.
  virtual std::vector<Host> hosts() const = 0;
  /// Measures which of these hosts, new to this supervisor or returned, may not be used; thorough:
  /// for some minutes, whether hosts in quarantine may be used again. Null: hosts are not checked,
  /// or not thoroughly.
  virtual std::unique_ptr<Pending<Fitness>> preflight(const std::vector<Host>& hosts,
                                                      bool thorough) = 0;
  /// Asks what the program says of these numbers of ranks when it is started with `options` in
  /// addition; nothing where it says nothing.
  virtual std::unique_ptr<Pending<std::vector<Layout>>> check_layouts(
      const std::vector<std::string>& options, const std::vector<Index>& ranks) = 0;

  /// Starts mpirun. Throws: Error.
  virtual void start(const AttemptPlan& plan) = 0;
  /// Waits until something happens, at most so long; between attempts as well.
  virtual Observation observe(double seconds) = 0;
  /// Sends SIGUSR1 to mpirun, which forwards it to all ranks: they save and end.
  virtual void request_stop() = 0;
  /// Returns when no process of the attempt is left, and removes its private directories.
  virtual void end_all() = 0;
  /// Returns what the ranks of the attempt have found of GPUs so far.
  virtual std::vector<GpuSign> gpu_signs() const = 0;
  /// Returns the slow hosts that the status pages show now (runtime/observe/stragglers.h).
  virtual std::vector<SlowHost> slow_hosts() const = 0;
  /// Returns what is found of the attempt that end_all() has ended.
  virtual Evidence evidence() const = 0;
  /// Asks which of its hosts do not answer.
  virtual std::unique_ptr<Pending<std::vector<std::string>>> find_unreachable() = 0;
};

}  // namespace trireme::supervisor
