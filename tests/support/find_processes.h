// Processes of this system, found by their parent or their command line.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace trireme::test {

/// Children of a process whose program has this name (its first 15 characters), or any where it is
/// empty; no zombies.
std::vector<pid_t> children(pid_t parent, const std::string& name);
/// How many processes have this text on their command lines; no zombies.
int processes_with(const std::string& text);

}  // namespace trireme::test
