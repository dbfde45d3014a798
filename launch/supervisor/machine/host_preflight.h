// The newest preflight of each host of a run, in RUN/supervisor/preflight.json, and the hosts that
// did not pass it, in RUN/supervisor/nodes.json. Machine::preflight() is in the same source.
#pragma once

#include <string>

#include "launch/preflight/report.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/records/nodes.h"

namespace trireme::supervisor {

/// Replaces what is known of these hosts. Throws: Error.
void keep_preflight(const Paths& paths, const preflight::Report& newest);
/// Empty where there is none that can be read: these are figures for people.
preflight::Report read_preflight(const Paths& paths);

/// "preflight of n1: gemm_gflops 2410, rename_sync_ms 3.7" a line.
std::string text_of_figures(const preflight::Report& report);
/// Adds the member "preflight", an object for each host.
void add_figures(Json& nodes, const preflight::Report& report);

/// Adds the member "unfit", an object for each host.
void add_unfit(Json& nodes, const std::vector<UnfitHost>& unfit);
/// Those of the last supervisor. Empty where they cannot be read.
std::vector<UnfitHost> read_unfit(const Paths& paths);

}  // namespace trireme::supervisor
