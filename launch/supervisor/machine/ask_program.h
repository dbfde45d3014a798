// What a program prints when the supervisor asks it something, outside an attempt.
#pragma once

#include <string>
#include <vector>

namespace trireme::supervisor {

struct Answer {
  std::string text;    // standard output and error
  bool whole = false;  // the program was started, and has closed its output in time
};
/// Of a program that must end within `limit_s`; it is killed then.
Answer ask_program(const std::vector<std::string>& words, double limit_s);

}  // namespace trireme::supervisor
