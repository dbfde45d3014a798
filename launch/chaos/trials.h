// What `trireme chaos` decides and counts: which fault comes next, what it expects of the ledger,
// whether steps that were done again have the same bits, and the report.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "launch/chaos/faults.h"
#include "launch/supervisor/records/ledger.h"
#include "launch/supervisor/records/rank_reports.h"

namespace trireme::supervisor {

/// Draws kinds so that each comes once before any comes again.
class FaultDeck {
 public:
  FaultDeck(std::vector<std::string> kinds, Index seed);
  FaultRequest next(const std::string& token);
  /// Whether any of the kinds may take a host out of the run.
  bool takes_hosts() const;

 private:
  const std::vector<std::string> kinds_;
  std::vector<std::string> left_;
  std::mt19937_64 random_;
};

/// Returns how many of the first `most` faults of a deck may take together no more than `spares`
/// hosts out of the run. It returns soon, however many `most` are.
Index faults_with_spares(FaultDeck deck, Index most, Index spares);

enum class Culprit { right, wrong, not_named };

/// A fault from which the run has recovered, or that did not stop it.
struct Trial {
  Fault fault;
  std::string cause;  // that the ledger says, or by what else the fault was noticed
  bool cause_is_right = false;
  Culprit culprit = Culprit::not_named;
  double seconds = 0;  // until the first step that no attempt had done
  Index lost_steps = 0;
};
/// `ended`: the attempt that the fault hit; `resumed`: from which step the next one went on;
/// `suspects`: hosts that may be the reason of its hang by its record, blamed or not
/// (hosts_narrowed_down()).
Trial judge_trial(const Fault& fault, const AttemptEnded& ended, Index resumed, double seconds,
                  const std::vector<std::string>& suspects = {});
/// `suspects`; none where they are all `hosts` of the attempt, as in a hang of a group that spans
/// them: then the record says nothing about hosts.
std::vector<std::string> hosts_narrowed_down(std::vector<std::string> suspects,
                                             const std::vector<std::string>& hosts);
/// "rank 3" of a fault that hit a rank; whether `text` names it, another one, or none.
Culprit culprit_in(const std::string& text, const std::string& victim);
/// Judges a flipped bit by what the ranks have decided (RUN/replicas.jsonl).
Culprit culprit_in(const std::vector<WrongRank>& wrong, const Fault& fault);

/// `all_same`: no step has had other bits than before.
std::string to_text(const std::vector<Trial>& trials, Index steps, bool all_same = true);
Json to_json(const std::vector<Trial>& trials, Index steps);

/// Useful time over time, of what has ended in the last `window_s` seconds and of the attempt that
/// runs, whose time counts as useful. 1 when that is less than half a minute.
double recent_goodput(const History& history, Index now, Index window_s);

/// The numbers of every step that was seen, but for its times.
class SeenSteps {
 public:
  /// Whole lines of a metrics file. Throws: Error at a step whose numbers differ from those seen
  /// before; `origin` names this text.
  void compare(std::string_view metrics, const std::string& origin);
  /// Steps from here on have other numbers now for a known reason.
  void forget_from(Index step);
  /// Returns how many steps were seen.
  Index steps() const { return static_cast<Index>(seen_.size()); }

 private:
  std::map<Index, std::size_t> seen_;  // a hash of the numbers
};

}  // namespace trireme::supervisor
