// --plan-only: what all ranks of a layout would need and do, printed by one process without ranks.
//
// Private to job.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trireme/job/run.h"

namespace trireme::job {

/// The value of --plan-only on a command line, "" where it has none; nothing: it is not given.
std::optional<std::string> layout_to_print(int argc, const char* const* argv);

/// Prints the plan of RANKS ranks ("64", or for another device "64,H100-SXM"); without a number, of
/// those that a launcher has started, or else of one data rank. Returns the exit code.
int print_layout(const std::string& value, int argc, char** argv, const Application& application,
                 const std::function<void(Context&)>& f);

}  // namespace trireme::job
