// What became of each attempt of a run, in a line each, and what to do about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/records/ledger.h"

namespace trireme::supervisor {

struct AttemptLine {
  Index attempt = 0, at = 0;        // at: when it ended, or began where it runs; seconds since 1970
  std::optional<Cause> cause = {};  // nothing: it runs, or its supervisor died
  std::string reason;               // who, where and what, in a sentence
  Index lost_steps = 0;             // that are done again
  double lost_s = 0;  // with what came after it: the wait, and the start of the next attempt
};

/// The newest attempts first, `most` of them, each as "2026-11-28 02:14:07  attempt 5  hang ...";
/// then what to do after the causes among them.
std::string to_text(const std::vector<AttemptLine>& lines, std::size_t most);
Json to_json(const std::vector<AttemptLine>& lines);

}  // namespace trireme::supervisor
