// TimeLine: which jobs have made the newest state of a run, and up to which step each of them. A
// job that goes back to an older step abandons what other jobs have made after it. Durable steps
// are then set aside; but a snapshot may lie in memory or on a disk of a host that this job does
// not use, and come back with that host. So each job writes here, before its first step, where it
// starts from; and only snapshots on the line may be loaded.
//
// Not installed; modules above may include it.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/core/error.h"

namespace trireme::store {

/// What the newest job was started from.
struct StartOfJob {
  Index attempt = 0;  // attempt of a supervisor; 0: it has none
  Index step = 0;
  std::string tier;  // where the step was: "memory", "local" (a piece of it was on the disk of a
                     // node), "durable"; empty: started from scratch
};

class TimeLine {
 public:
  static constexpr Index no_end = std::numeric_limits<Index>::max();
  struct Part {
    std::string job;  // its id
    Index until = no_end;
    friend bool operator==(const Part&, const Part&) = default;
  };

  /// Whether this step of that job belongs to the state of the run.
  bool has(Index step, const std::string& job) const;
  /// `job` starts from `start`. `resumes`: from a state of this run, all of it.
  void begin(const std::string& job, const StartOfJob& start, bool resumes);

  const std::vector<Part>& parts() const { return parts_; }
  const StartOfJob& start() const { return start_; }
  /// Returns where snapshots of the run may be on disks of nodes: --save-local of each of its jobs,
  /// each directory once.
  const std::vector<std::string>& disks() const { return disks_; }
  void add_disk(const std::string& directory);

 private:
  friend struct TimeLineMembers;
  std::vector<Part> parts_;  // oldest first
  StartOfJob start_;
  std::vector<std::string> disks_;
};

std::string to_text(const TimeLine& line);
/// Throws: Error when it is damaged, cut short or of another format.
TimeLine parse_time_line(const std::string& text);

/// In the directory of a run (--save).
inline constexpr const char* time_line_name = "time-line.json";
/// What is there is no time line.
class DamagedTimeLine : public Error {
 public:
  using Error::Error;
};
/// Returns nothing where there is none. Throws: DamagedTimeLine, Error where it cannot be read.
std::optional<TimeLine> read_time_line(const std::string& directory);
/// Replaces it, durably. Throws: Error.
void write_time_line(const std::string& directory, const TimeLine& line);

}  // namespace trireme::store
