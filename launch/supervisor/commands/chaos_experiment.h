// Experiment: one fault after another in a run, and what came of each.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/commands/chaos.h"
#include "launch/supervisor/commands/chaos_signs.h"
#include "runtime/core/process/end_signals.h"

namespace trireme::supervisor {

struct ChaosOptions {
  std::string run, reference;
  std::vector<std::string> kinds = {"kill", "segv", "mpirun"};
  double every_s = 600, for_s = 7200, limit_s = 600;
  Index seed = 1, max = 20;
  double least_goodput = 50;
  std::string node_command, link_command;  // run by the shell, with TRIREME_HOST
  std::string save_chaos;                  // where copies of checkpoints are damaged
};

class Experiment {
 public:
  /// After one of these signals it stops, once what a command of the user took away is back.
  Experiment(const ChaosOptions& options, const EndSignals& signals);

  /// Returns whether every fault was recovered from, with the right cause and culprit. Throws:
  /// Error at the first wrong bit, or where the run does not recover.
  bool run();
  const std::vector<Trial>& trials() const { return trials_; }
  Index steps() const { return seen_.steps(); }

 private:
  using Clock = std::chrono::steady_clock;
  /// A fault that was done, and what the run had reached then.
  struct Struck {
    Fault fault;
    const FaultKind* kind;
    Clock::time_point at;
    Index step;
    std::shared_ptr<LogTail> log;
  };

  /// Whether a condition came to hold within a time. The ledger is read before each look. Throws:
  /// Error after a signal.
  bool comes_true(double within_s, double pause_s, const std::function<bool()>& condition);
  void read_ledger();
  bool is_ready() const;
  bool has_ended() const;
  void check_goodput() const;
  void compare();
  bool may_be_done(const std::string& kind) const;
  void do_next();
  Struck strike(const FaultRequest& request);
  void call_user(const Struck& struck, const std::string& state) const;
  void await_recovery(const Struck& struck);
  void disturb_host(const Struck& struck);
  std::optional<Trial> outcome(const Struck& struck);
  std::optional<Trial> outcome_of_attempt(const Struck& struck, const AttemptEnded& ended) const;
  std::optional<Trial> outcome_without_end(const Struck& struck);
  void damage_a_copy(const FaultRequest& request);
  void take(Trial trial);

  const ChaosOptions options_;
  const EndSignals& signals_;
  const Paths paths_;
  const std::string metrics_;
  FaultDeck deck_;
  SeenSteps seen_;
  std::vector<Trial> trials_;
  History history_;  // of read_ledger()
  Index ledger_bytes_ = -1;
};

}  // namespace trireme::supervisor
