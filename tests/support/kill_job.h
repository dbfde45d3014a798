// KillableJob: a job of mpirun in a session of its own, so that its processes can be found and
// ended even after mpirun has died. What Open MPI leaves behind after kill -9 lies in a folder that
// is removed with the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/scratch_directory.h"

namespace trireme::test {

/// The target of kill -9: one rank, mpirun (its ranks run for another second), or all at once.
enum class Victim { rank, launcher, all };

class KillableJob {
 public:
  /// Starts "MPIRUN ... PROGRAM ARGUMENTS"; stdout and stderr go to the file `log`.
  KillableJob(const std::string& mpirun, const std::string& program, const std::string& arguments,
              const std::string& log);
  /// Ends what is left.
  ~KillableJob();
  KillableJob(const KillableJob&) = delete;
  KillableJob& operator=(const KillableJob&) = delete;

  /// Sends SIGKILL; `choice` says which rank: number choice % ranks. Kills the launcher if there is
  /// no rank yet. Returns what was killed; none when the job is over.
  std::optional<Victim> kill(Victim victim, unsigned choice);
  /// Its living processes of a program: "mpirun", or the ranks.
  std::vector<pid_t> named(const std::string& program) const;
  /// Has mpirun ended?
  bool ended();
  /// Waits for mpirun. Returns its exit code; 128 + signal when a signal ended it.
  int wait();
  /// Waits until no process of the job is left: ranks outlive a killed mpirun by a second.
  /// Throws: Error with their numbers when they are there after 60 s.
  void wait_until_gone() const;

 private:
  struct Process {
    pid_t id;
    std::string name;  // the first 15 characters of the program's
  };
  std::vector<Process> processes() const;

  std::string program_name_;
  ScratchDirectory scratch_;
  pid_t session_ = -1;
  int status_ = 0;
  bool reaped_ = false;
};

}  // namespace trireme::test
