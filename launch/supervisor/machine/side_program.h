// SideProgram: a program that runs beside the job, such as a preflight, or PROGRAM when it is asked
// about layouts. Nothing waits for it: signals and the job are watched meanwhile.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "launch/supervisor/machine/processes.h"

namespace trireme::supervisor {

/// Exit statuses of side programs. Machine asks the kernel for the status of any child, orphans
/// among them, and leaves those here that a SideProgram expects.
class SideStatuses {
 public:
  void expect(pid_t id) { statuses_[id] = std::nullopt; }
  void forget(pid_t id) { statuses_.erase(id); }
  void note(pid_t id, int status) {
    if (const auto found = statuses_.find(id); found != statuses_.end()) found->second = status;
  }
  std::optional<int> of(pid_t id) const { return statuses_.at(id); }

 private:
  std::map<pid_t, std::optional<int>> statuses_;
};

struct SideCommand {
  std::vector<std::string> words;
  Variables variables = {};
  double limit_s = 60;
  std::string log = {};  // file for what it prints; empty: SideEnd has it
  bool prints = false;   // where this process prints, in place of both
  double ending_s = 5;   // between SIGTERM and SIGKILL, where it is ended
};

struct SideEnd {
  std::optional<int> code;  // nothing: a signal ended it
  bool late = false;        // it was ended at its limit
  std::string output = {};  // standard output and error
};

class SideProgram {
 public:
  /// Throws: Error when it cannot be started.
  SideProgram(SideStatuses& statuses, const SideCommand& command);
  /// Ends it where it runs: with SIGTERM, so that it can remove its files, then with SIGKILL.
  ~SideProgram();
  SideProgram(const SideProgram&) = delete;
  SideProgram& operator=(const SideProgram&) = delete;

  /// Nothing: it runs. Call it again soon, it also empties the pipe that the program writes to.
  std::optional<SideEnd> poll();
  /// SIGTERM now, where it runs, so that several end at the same time: ending_s counts from now.
  void ask_to_end();

 private:
  void read();
  void end();

  SideStatuses& statuses_;
  const double ending_s_;
  pid_t id_ = -1;
  int pipe_ = -1;
  double until_ = 0;
  std::optional<double> asked_to_end_;  // when
  SideEnd end_;
};

}  // namespace trireme::supervisor
