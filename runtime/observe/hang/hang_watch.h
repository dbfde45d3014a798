// HangWatch: when a job counts as hung, and what follows. It is given what the pages say at each
// poll and decides from this series alone, so that false alarms can be tested without waiting.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "trireme/core/dtype.h"

#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/page_layout.h"

namespace trireme::observe {

/// How long a job may stay without any progress.
struct HangLimits {
  double step_s = 10;   // the least for a step: --hang-timeout
  double gaps = 5;      // and the longest gap between ops so far, so many times; see hang_limit_s()
  double start_s = 60;  // from the start of the processes to the plan
  double start_s_per_rank = 0.05;
  double first_step_s = 120;  // kernels are loaded, connections made
  double load_s = 60;
  double evaluate_s = 60;
  double program_s = 600;  // while code of the program runs, not ours
  double save_s = 600;
  double exit_s = 60;   // for all processes to end when their ranks have ended
  double storage = 10;  // all limits, so many times, while all ranks read
};

struct JobFacts {
  int ranks = 1;
};

/// The limit of a rank in this phase. Without a gap measured, a step is the first one. A gap counts
/// up to the limit of the first step.
double hang_limit_s(const RankProgress& rank, const JobFacts& job, const HangLimits& limits);

class HangWatch {
 public:
  enum class Action {
    none,
    log,  // the verdict, once
    end   // the job: stuck for certain, or for twice the limit
  };
  struct Decision {
    Action action = Action::none;
    double quiet_s = 0;  // without any progress
    double limit_s = 0;
    Verdict verdict;  // where there is an action
  };

  HangWatch(const JobFacts& job, const HangLimits& limits = {}) : job_(job), limits_(limits) {}

  /// Call it often. `ranks`: all of them, in one order. `ask` is called only when nothing has moved
  /// for the limit of a step, and while the job is debugged or stopped. A rank that is stopped is a
  /// hang from then on in every phase.
  Decision poll(double now_s, const std::vector<RankProgress>& ranks,
                const std::function<Verdict()>& ask);

 private:
  double limit_s(const std::vector<RankProgress>& ranks) const;
  void learn(double now_s, const std::vector<RankProgress>& ranks);
  bool has_moved(const std::vector<RankProgress>& ranks) const;
  void restart(double now_s);

  const JobFacts job_;
  const HangLimits limits_;
  std::vector<RankProgress> before_;
  std::optional<double> polled_s_;
  double quiet_since_s_ = 0;
  double longest_quiet_s_ = 0;  // for the whole job in steps, which then moved again
  bool logged_ = false;
  bool paused_ = false;  // debugged or stopped, when last asked
};

}  // namespace trireme::observe
