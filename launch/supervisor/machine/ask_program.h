// What a program prints when the supervisor asks it something, outside an attempt.
#pragma once

#include <string>
#include <vector>

namespace trireme::supervisor {

/// Standard output and error of a program that must end within `limit_s`; it is killed then.
/// Empty: it could not be started.
std::string ask_program(const std::vector<std::string>& words, double limit_s);

}  // namespace trireme::supervisor
