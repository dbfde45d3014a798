// Processes of this machine by what they have in their environment, which distinguishes those of a
// run from all others.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

/// The numbers of all processes. Throws: Error where /proc cannot be read.
std::vector<std::int64_t> all_processes();

/// "\0NAME=VALUE\0NAME=VALUE\0", as it was when the process began; no variables where there is no
/// such process, or it is that of another user.
std::string environment_of(std::int64_t pid);
/// `variable`: "NAME=VALUE".
bool has_variable(const std::string& environment, const std::string& variable);
/// Empty where it is missing.
std::string value_in(const std::string& environment, const std::string& name);

/// Sends a signal, only if `is_meant` holds of the environment once a descriptor holds the number
/// of the process. Throws: Error where the kernel, or a filter of system calls, allows no such
/// descriptor.
void signal_where(std::int64_t pid, int signal,
                  const std::function<bool(const std::string& environment)>& is_meant);

}  // namespace trireme
