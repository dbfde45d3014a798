// SaveRecord: what a save reports when it has ended.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// The outcome of a save in --save.
struct SaveRecord {
  Index step = 0;
  std::string error;                               // why it failed; empty: the step is durable
  double stall_ms = 0, copy_ms = 0, write_ms = 0;  // the longest of any rank
  double durable_after_s = 0;                      // since it began
  Index bytes = 0;                                 // what all ranks together have written
  Index ranks = 0;
  Index step_before = -1;                   // the durable step of this run before it; -1: none
  std::optional<double> after_that_s = {};  // between the two; none: another job saved that one
  Index failures = 0;                       // saves in a row that have failed, this one included
};

}  // namespace trireme
