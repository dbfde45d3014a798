// MetricsTail: the steps that a job adds to its metrics file, read while it writes.
#pragma once

#include <string>
#include <vector>

#include "launch/supervisor/decide/launcher.h"

namespace trireme::supervisor {

class MetricsTail {
 public:
  /// Steps from now on. The file need not exist yet; an empty path has no steps.
  explicit MetricsTail(std::string path);
  /// Whole lines since the last call. A job that resumes cuts off lines that it will repeat.
  std::vector<Step> read();

 private:
  Index size() const;

  std::string path_;
  Index at_ = 0;  // all before it is read
};

/// The step of its last whole line; 0: none.
Index last_step_in(const std::string& metrics);

/// How fast a job does steps.
struct StepRate {
  double usual_s = 0;  // the median of its last steps; 0: it has done none
  double age_s = 0;    // of the last one
};
StepRate step_rate_in(const std::string& metrics);

}  // namespace trireme::supervisor
