// The ledger of a supervised run: what every attempt did, a JSON object a line, appended and
// synced. It is the only state that a supervisor needs to continue the work of one that died.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/json/json.h"

namespace trireme::supervisor {

/// Returns the seconds since 1970, by the clock that people set.
inline Index date_now() { return Index{std::time(nullptr)}; }
/// Returns seconds since 1970 (UTC) as "2026-11-22T01:49:05Z"; date_of() reads that, and returns 0
/// for what is no such time.
std::string date_text(Index seconds);
Index date_of(const std::string& text);

/// One process of `trireme run`.
struct SupervisionBegan {
  Index at = 0, pid = 0;
  std::string host, run;       // run: id of the run, made by its first supervisor
  std::string program;         // the name of PROGRAM without its directory
  Index quarantine_s = 0;      // how long a host stays in quarantine; 0: as long as by default
  std::string metrics = {};    // the file of the steps of PROGRAM; empty: RUN/metrics.jsonl
  std::string ckpt_step = {};  // --ckpt-step of PROGRAM; empty: not given
  Index format = 0;            // that of the lines that follow; 0: that of trireme 0.2 and before
  std::string version = {};    // trireme's version
};
/// The format that this version writes, and the newest that it reads.
constexpr Index ledger_format = 1;
struct SupervisionEnded {
  Index at = 0, code = 0;
  std::string why;
};

/// How an attempt has ended (docs/concepts/recovery.md), in the order of the names, which is that
/// of reports.
enum class Cause {
  configuration,
  corruption,
  crashed,
  ended_early,
  failed,
  finished,
  gpu_failed,
  growth,
  hang,
  killed,
  launcher_killed,
  node_lost,
  numerics,
  out_of_memory,
  replacement,
  stopped,
  supervisor_lost,
  unknown  // this version of trireme does not know it
};
/// Returns the name in the ledger and in reports: "node_lost".
std::string name(Cause cause);
/// Returns the cause of this name, or unknown.
Cause cause_named(std::string_view name);
/// Returns whether the supervisor had the job save and end to continue on other hosts: no failure.
bool is_planned(Cause cause);
/// Returns whether the attempt did not end as intended.
bool is_failure(Cause cause);
/// Returns what a person may do after an attempt with this cause; empty: nothing.
std::string remedy_for(Cause cause);

struct Blame {
  std::string host;
  Index points = 0;
  std::string why;
};

/// When an attempt saves, with `--save-interval auto`.
struct SaveRule {
  Index steps = 0;       // every so many steps; 0: by time
  double seconds = 600;  // every so many seconds, where `steps` is 0
  bool operator==(const SaveRule&) const = default;
};

struct AttemptBegan {
  Index attempt = 0, at = 0;
  std::vector<std::string> nodes;
  Index ranks = 0, spares = 0;  // spares: slots of the hosts held in reserve
  Index resumed = 0;            // newest durable step when it began; 0: from scratch
  double waited_s = 0;          // since the attempt before it, or since its supervisor began
  std::string layout = {};      // "pp1 dp2 tp2"; empty: the program was not asked
  bool fewer = false;           // it has fewer hosts than --nodes
  Index slots = 0;              // ranks on each host but the last; 0: all hosts have equally many
  double no_hosts_s = 0, preflight_s = 0;  // parts of waited_s: too few hosts; measuring them
  bool went_back = false;  // it started from `resumed`, though newer steps may be durable
  std::optional<SaveRule> saves = {};  // nothing: as PROGRAM's options say
};
/// The step that an attempt has started from.
struct Started {
  Index step = -1;        // -1: not known
  std::string tier = {};  // where it was: "memory", "local", "durable"; empty: from scratch
};
/// What the supervisor makes of the end of an attempt.
struct Verdict {
  Cause cause = Cause::unknown;
  std::string signature;  // equal for failures that look alike
  std::string error;      // why it has ended, in a sentence; empty where the cause says all
  std::vector<Blame> blame;
};
struct AttemptEnded : Verdict {
  Index attempt = 0, at = 0;
  Index code = 0;  // mpirun's exit code, or 128 + the signal that ended it
  Index last_step = 0, durable = 0;
  // Together wall_s, but for detect_s, which is a part of stall_s.
  double wall_s = 0, start_s = 0, useful_s = 0, lost_s = 0, stall_s = 0, detect_s = 0;
  double gpus_per_rank = -1;  // 0 on CPUs; -1: not known
  double save_s = 0;          // the longest save, from the end of its step until it was durable
  Index first_step = 0;       // the first step that it did; 0: none
  std::vector<std::string> slow = {};  // ranks and nodes that were slow at its end, a line each
  Index saves = 0;                     // how many saves it has made
  double save_interval = 0;            // mean number of steps between two; 0: fewer than two
  Started started = {};
  /// Where Cause::corruption was seen in a step done twice, the newest clean step before it; -1:
  /// none is known.
  std::optional<Index> clean = {};
};

struct Attempt {
  AttemptBegan began;
  std::optional<AttemptEnded> ended;  // nothing: its supervisor died, or it still runs
  Started started = {};
};
struct Release {
  std::string host;
  Index at = 0;
  std::size_t after = 0;  // the attempts before it: what they blamed the host for is forgotten
};

/// A host to do without where there are others: its GPU asks for a repair soon, or it is slow.
struct Leave {
  std::string host;
  Index at = 0;
  std::string why;
  bool slow = false;
  std::size_t after = 0;  // the number of releases before it
};

/// A fault that `trireme chaos` has asked for.
struct Fault {
  Index attempt = 0, at = 0;
  std::string kind, victim;  // victim: "rank 3"
};

/// The loss has left its usual range (docs/concepts/silent_corruption.md).
struct LossSpike {
  Index attempt = 0, at = 0, step = 0;
  double loss = 0;
};

Json to_json(const SupervisionBegan& line);
Json to_json(const SupervisionEnded& line);
Json to_json(const AttemptBegan& line);
Json to_json(const AttemptEnded& line);
Json to_json(const Release& line);
Json to_json(const Leave& line);
Json to_json(const Fault& line);
Json to_json(const LossSpike& line);

/// What a ledger says.
struct History {
  std::string run, program, metrics;  // empty: no supervisor has begun, or the usual file
  std::vector<SupervisionBegan> supervisions;
  std::optional<SupervisionEnded> end;  // the last supervision's; nothing: it died, or still runs
  std::vector<Attempt> attempts;
  std::size_t first = 0;  // the first attempt since a supervision ended and said why
  std::size_t given = 0;  // the first one with the --ckpt-step that PROGRAM has now
  std::vector<Release> releases;
  std::vector<Leave> leaves;
  std::vector<Fault> faults;
  std::vector<LossSpike> spikes;
  Index ignored = 0;       // the number of lines that are none
  std::string newer = {};  // "format 2 of trireme 0.3.0", which is not read; empty: all is

  /// Returns where PROGRAM writes the metrics of its steps.
  std::string metrics_in(const std::string& run_directory) const;
  void add(const SupervisionBegan& line);
  void add(const SupervisionEnded& line);
  void add(const AttemptBegan& line);
  void add(const AttemptEnded& line);
  void add(const Release& line);
  void add(const Leave& line);
  void add(const Fault& line) { faults.push_back(line); }
  void add(const LossSpike& line) { spikes.push_back(line); }
};
/// Reads a ledger. Never throws for what the text holds: a line that a crash has torn is no line.
History replay(std::string_view text);

/// The file of a ledger, open to be appended to by one process.
class LedgerFile {
 public:
  /// Creates it, or removes what a crash has left of a last line. Throws: Error.
  explicit LedgerFile(const std::string& path);
  ~LedgerFile();
  LedgerFile(const LedgerFile&) = delete;
  LedgerFile& operator=(const LedgerFile&) = delete;

  /// Appends a line, which is on disk when this returns. Throws: Error.
  void append(const Json& line);

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace trireme::supervisor
