#include "launch/supervisor/machine/reach.h"

#include <algorithm>
#include <filesystem>

#include "trireme/core/error.h"

#include "runtime/core/process/host_name.h"

namespace trireme::supervisor {
namespace {

const std::string setting = "plm_rsh_agent";

/// ssh fails in place of asking for a password.
void ask_nothing(Words& shell) {
  if (!shell.empty() && std::filesystem::path(shell.front()).filename() == "ssh")
    shell.insert(shell.end(), {"-o", "BatchMode=yes"});
}

bool is_this_machine(const std::string& host) {
  const std::string self = host_name();
  return host == self || host == "localhost" || host.starts_with("127.") ||
         self.starts_with(host + ".");
}

}  // namespace

Words remote_shell_of(const std::string& given, const Words& mpirun, const HostSource& source,
                      const Environment& environment) {
  if (!given.empty()) return words_in(given);
  const auto named = std::find(mpirun.begin(), mpirun.end(), setting);
  if (named != mpirun.end() && named + 1 != mpirun.end()) return words_in(*(named + 1));
  const std::string agent = environment("OMPI_MCA_" + setting);
  if (!agent.empty()) return words_in(agent);
  if (source.kind == HostSource::Kind::slurm) return {};
  return {"ssh"};
}

UnreachableHosts::UnreachableHosts(std::set<pid_t>& family, const std::vector<Host>& hosts,
                                   const Words& shell, double longest_s) {
  if (shell.empty() || !is_executable(shell.front())) return;
  Words asking = shell;
  ask_nothing(asking);
  const ChildOptions options{.output = ChildOptions::Output::file,
                             .file = "/dev/null",
                             .limit_s = longest_s,
                             .ending_s = 0,
                             .family = &family};
  for (const Host& host : hosts) {
    if (is_this_machine(host.name)) continue;
    Words words = asking;
    words.insert(words.end(), {host.name, "true"});
    try {
      probes_.push_back({host.name, std::make_unique<Child>(words, options)});
    } catch (const Error&) {  // too many processes, for example: it is not asked, and not blamed
    }
  }
}

std::optional<std::vector<std::string>> UnreachableHosts::poll() {
  std::vector<std::string> found;
  bool all_have_ended = true;
  for (const Probe& probe : probes_) {
    const ChildEnd* end = probe.program->poll();
    all_have_ended = all_have_ended && end != nullptr;
    if (end != nullptr && !end->succeeded()) found.push_back(probe.host);
  }
  if (!all_have_ended) return std::nullopt;
  if (found.size() > 1 && found.size() == probes_.size()) found.clear();
  return found;
}

}  // namespace trireme::supervisor
