// What one process without ranks finds out of layouts. --check-layout: whether a program can train
// on so many ranks; each number of ranks has a process of its own, in which the program runs on a
// mesh of that shape until its Trainer has planned the memory. --plan-only: what all ranks of a
// layout would need and do.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trireme/job/run.h"

namespace trireme {

/// The value of --check-layout on a command line; nothing: it is not given.
std::optional<std::string> layouts_to_check(int argc, const char* const* argv);

/// Prints a line of JSON for each of `counts` ("8,6,4"):
///   {"ranks":8,"legal":true,"data":4,"pipeline":1,"tensor":2,"rank_bytes":123456,
///    "state_bytes":65536,"configuration":{"--seed":"1234",...}}
///   {"ranks":6,"legal":false,"problems":["--global-batch-size 8 is not a multiple of ..."]}
/// Returns the exit code: whether all could be checked. Call it where there are no threads.
int check_layouts(const std::string& counts, int argc, char** argv, const Application& application,
                  const std::function<void(Context&)>& f);

}  // namespace trireme

namespace trireme::job {

/// The value of --plan-only on a command line, "" where it has none; nothing: it is not given.
std::optional<std::string> layout_to_print(int argc, const char* const* argv);

/// Prints the plan of RANKS ranks ("64", or for another device "64,H100-SXM"); without a number, of
/// those that a launcher has started, or else of one data rank. Returns the exit code.
int print_layout(const std::string& value, int argc, char** argv, const Application& application,
                 const std::function<void(Context&)>& f);

}  // namespace trireme::job
