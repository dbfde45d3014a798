// Which hosts do not answer: mpirun does not name a host on which it could start nothing.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/decide/launcher.h"
#include "launch/supervisor/machine/hosts_of_scheduler.h"
#include "runtime/core/process/child.h"

namespace trireme::supervisor {

/// The command by which mpirun starts its daemons on other hosts; empty where a scheduler does.
/// `given`: --remote-shell.
Words remote_shell_of(const std::string& given, const Words& mpirun, const HostSource& source,
                      const Environment& environment);

/// Finds those where `shell HOST true` fails, or takes longer than `longest_s`; all are tried at
/// once. This machine, which needs no shell, is left out. None where none of several hosts answers:
/// then it is rather the shell.
class UnreachableHosts : public Pending<std::vector<std::string>> {
 public:
  UnreachableHosts(std::set<pid_t>& family, const std::vector<Host>& hosts, const Words& shell,
                   double longest_s);
  std::optional<std::vector<std::string>> poll() override;

 private:
  struct Probe {
    std::string host;
    std::unique_ptr<Child> program;
  };
  std::vector<Probe> probes_;
};

}  // namespace trireme::supervisor
