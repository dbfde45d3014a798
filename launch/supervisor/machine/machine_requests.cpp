// What reaches the supervisor from outside: signals, and files that commands write into the run.
#include <algorithm>
#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/machine.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

/// Empty: it cannot be read now, as on a network file system while it is replaced.
std::string read_request(const std::string& path) {
  constexpr Index most_bytes = Index{1} << 12;
  try {
    return read_whole(path, most_bytes);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

void Machine::read_signals(Observation& seen) {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof info) == sizeof info) {
    const auto signal = static_cast<int>(info.ssi_signo);
    ended_by_signal_ =
        ended_by_signal_ || signal == SIGHUP || signal == SIGTERM || signal == SIGINT;
    if (signal == SIGHUP) seen.signals.push_back(SIGTERM);  // the terminal is gone
    if (signal != SIGHUP && signal != SIGCHLD) seen.signals.push_back(signal);
  }
}

void Machine::read_stop_file(Observation& seen) {
  if (now_seen_ || ::access(paths_.stop.c_str(), F_OK) != 0) return;
  if (!stop_seen_) seen.signals.push_back(SIGUSR1);
  stop_seen_ = true;
  if (!read_request(paths_.stop).starts_with("now")) return;
  now_seen_ = true;
  seen.signals.push_back(SIGKILL);
}

Scene Machine::scene() const {
  return {mpirun_runs() ? mpirun_->id() : -1, attempt_, date(), own_.pages(), hosts_,
          hosts_.empty() ? 0 : spare_hosts()};
}

/// Hosts at hand that the attempt does not use, and that are not in quarantine.
Index Machine::spare_hosts() const {
  Index spares = 0;
  for (const Host& host : hosts()) {
    const auto is_used = [&](const Host& used) { return used.name == host.name; };
    const auto is_out = [&](const NodeState& state) {
      return state.host == host.name && state.quarantined();
    };
    if (std::none_of(hosts_.begin(), hosts_.end(), is_used) &&
        std::none_of(shown_.begin(), shown_.end(), is_out))
      ++spares;
  }
  return spares;
}

}  // namespace trireme::supervisor
