// Processes of this machine: which ones, whose children, and how they are ended without meeting
// another one that got the same number.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace trireme::supervisor {

/// Returns the living children of this process (orphans that it adopted among them) that are in
/// none of these sessions, and do not have `spared`, "NAME=VALUE", in their environment; zombies
/// are not living.
std::vector<pid_t> children_outside(const std::set<pid_t>& sessions,
                                    const std::string& spared = "");

struct Descendant {
  pid_t id = -1, parent = -1;
  std::string value;  // that of the variable in its environment; empty: it has none
};
/// Returns the living processes that a process has started, directly or not, in the order of their
/// ids.
std::vector<Descendant> descendants_of(pid_t root, const std::string& variable);
/// Sends a signal to a process if its environment has this "NAME=VALUE".
void signal_if_it_has(pid_t id, const std::string& variable, int signal);

/// Sends SIGKILL to every process of this user whose environment has this "NAME=VALUE", but for
/// this one, and returns when none is left. Returns how many there were.
int end_all_with(const std::string& variable);

}  // namespace trireme::supervisor
