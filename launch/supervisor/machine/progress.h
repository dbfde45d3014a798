// What a job has done: the steps in its metrics file, read while it writes, and durable steps.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/core/dtype.h"

#include "launch/supervisor/decide/launcher.h"

namespace trireme::supervisor {

class MetricsTail {
 public:
  /// Reads steps from now on. The file need not exist yet; an empty path has no steps.
  explicit MetricsTail(std::string path);
  /// Returns the steps of whole lines since the last call. A job that resumes cuts off lines that
  /// it will repeat.
  std::vector<Step> read();

 private:
  Index size() const;

  std::string path_;
  Index at_ = 0;  // all before this place is read
};

/// Returns the step of the last whole line of a file of metrics; 0: none.
Index last_step_in(const std::string& metrics);

/// How fast a job does steps.
struct StepRate {
  double usual_s = 0;  // the median of its last steps; 0: it has done none
  double age_s = 0;    // how long ago the last one ended
};
StepRate step_rate_in(const std::string& metrics);

/// DurableWatch: the newest durable step of a run, at so little cost that it is asked for at each
/// look.
class DurableWatch {
 public:
  /// `run`: the directory of checkpoints, which need not exist yet.
  explicit DurableWatch(std::string run) : run_(std::move(run)) {}
  /// Returns the newest durable step; 0: there is none. `now`: seconds of a clock that does not
  /// jump. The directory is read where its date has changed, and every 2 s: some network file
  /// systems show dates late, and two commits within one tick of the clock of the file system have
  /// one date.
  Index newest(double now);
  /// Has the next newest() read the directory, whatever its date.
  void look_again() { changed_ns_ = -1; }

 private:
  std::string run_;
  Index newest_ = 0, changed_ns_ = -1;
  double checked_ = 0;
};

}  // namespace trireme::supervisor
