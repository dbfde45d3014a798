// Runs a job to its end, for commands that start one job after the other.
#pragma once

#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/verify/program_words.h"
#include "runtime/core/process/child.h"

namespace trireme::verify {

/// A signal has come. Not a std::exception, so that no handler takes it for a failure.
struct Interrupted {};

/// `take_line`: gets each line that it prints, at once. While it runs, a line each half minute says
/// for how long it has. Throws: Interrupted, after the program has ended.
inline ChildEnd run_job(
    const std::vector<std::string>& words, double limit_s, const EndSignals& signals,
    std::function<void(std::string_view)> take_line = [](std::string_view) {}) {
  ChildEnd end = run_program(words, {.limit_s = limit_s,
                                     .signals = &signals,
                                     .take_line = std::move(take_line),
                                     .still_runs = [&](double passed_s) {
                                       std::cerr << fmt::format("{:4.0f} s of {:.0f} s at most\n",
                                                                passed_s, limit_s);
                                     }});
  if (end.why == ChildEnd::Why::asked) throw Interrupted();
  return end;
}

}  // namespace trireme::verify
