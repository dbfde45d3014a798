// Where the time of a run went: into useful steps, steps that had to be done again, start, stalls
// and waiting; and what it cost.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/records/ledger.h"
#include "launch/supervisor/records/save_interval.h"

namespace trireme::supervisor {

/// What became of each attempt of a run, in a line each, and what to do about it.
struct AttemptLine {
  Index attempt = 0, at = 0;        // at: when it ended, or began where it runs; seconds since 1970
  std::optional<Cause> cause = {};  // nothing: it runs, or its supervisor died
  std::string reason;               // who, where and what, in a sentence
  Index lost_steps = 0;             // steps that are done again
  double lost_s = 0;                // their time, with the wait and the start of the next attempt
};

/// Lists the newest attempts first, `most` of them, each as "2026-11-28 02:14:07  attempt 5  hang
/// ..."; then what to do after the causes among them.
std::string to_text(const std::vector<AttemptLine>& lines, std::size_t most);
Json to_json(const std::vector<AttemptLine>& lines);

/// The steps of an attempt that were not done again, although they were not durable when it ended:
/// the next attempt has started from a snapshot.
struct RecoveredSteps {
  Index lost_steps = 0;  // the steps that its end has cost, as the next attempt started
  double seconds = 0;    // the part of AttemptEnded::lost_s that was not lost
};
/// Counts those of an attempt that has ended.
RecoveredSteps recovered_steps(const History& history, std::size_t attempt);

/// The steps of one attempt. It takes constant memory as long as steps become durable.
class StepTimes {
 public:
  void step(Index number, double seconds) { open_.push_back({number, seconds}); }
  /// Says that steps up to this one need not be done again.
  void durable(Index number);
  double durable_s() const { return durable_s_; }
  double open_s() const;  // the time of steps that are not durable

 private:
  struct Step {
    Index number;
    double seconds;
  };
  std::vector<Step> open_;
  double durable_s_ = 0;
};

struct Goodput {
  double wall_s = 0;
  // Together wall_s. detect_s: until hangs were noticed.
  double useful_s = 0, lost_s = 0, start_s = 0, stall_s = 0, detect_s = 0, waited_s = 0;
  double no_hosts_s = 0, preflight_s = 0;  // parts of waited_s: too few hosts; measuring them
  Index attempts = 0, failures = 0;
  Index from_memory = 0,
        from_local = 0;  // attempts that started from a snapshot, see Started::tier
  /// What ranks and spares held, over wall_s; `spare`: the part of spares; `lost`: what failures
  /// cost, as in Cost.
  struct Hours {
    double all = 0, spare = 0, lost = 0;
  };
  Hours gpu, node;
  bool gpus_assumed = false;  // an attempt that has not said it counts with one for each rank
  /// `lost_s`: steps that are done again, the time until it was noticed, and the wait and the start
  /// after it.
  struct Cost {
    Index failures = 0, lost_steps = 0;
    double lost_s = 0;
  };
  std::vector<AttemptLine> lines;  // a line for each attempt, also for one that runs
  std::map<Cause, Cost> causes;
  std::map<std::string, Index> failures_of_host;
  std::vector<std::string> notes;  // which ranks of attempts were slow, and spikes of the loss
  std::optional<SaveInterval> saves;
  std::optional<SaveRule> chosen;  // the last rule of --save-interval auto, in attempt `chosen_in`
  Index chosen_in = 0;
  std::map<std::string, double> layouts;  // wall_s of attempts whose layout is known
  double ratio() const { return wall_s > 0 ? useful_s / wall_s : 0; }
  /// Leaves out the time in which hosts were missing: the effective training time ratio.
  double ratio_with_hosts() const;
};
/// Sums up all attempts that have ended.
Goodput goodput(const History& history);

/// What an hour of one GPU or of one node costs; 0: not shown. `gpu`: its name, for people.
struct Price {
  double amount = 0;
  std::string gpu;
  bool of_node() const { return gpu == "node"; }
};
/// Reads "2.5", "H100=2.5" or "node=0.4". Throws: Error.
Price parse_price(const std::string& text);
std::string to_text(const Goodput& goodput, const Price& price);
Json to_json(const Goodput& goodput, const Price& price);

}  // namespace trireme::supervisor
