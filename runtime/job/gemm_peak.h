// The GEMM rate of a job's devices, for the column "GEMM peak" of the log. Each kind of device is
// measured once for all jobs of a user: what was measured lies in the user's directory for caches.
//
// Not installed; modules above may include it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "trireme/job/run.h"

namespace trireme {

/// FLOP/s by kind of device, and the text of the file that stores them.
using GemmRates = std::map<std::string, double>;
std::string to_text(const GemmRates& rates);
/// Empty when it is not the text of a GemmRates: it is only a cache.
GemmRates parse_gemm_rates(const std::string& text);

/// Collective. FLOP/s of a rank that are not measured but given, by TRIREME_GEMM_PEAK in the
/// environment of rank 0. Throws: JobError on all ranks when that is no rate.
std::optional<double> given_gemm_rate(const Host& host);

/// Collective. GEMM rate, in FLOP/s, that all ranks together can have in the type that is computed
/// with; a rank that has too little memory to measure counts as 0. `node_ranks`: ranks on this
/// rank's node, which share its cores. Kinds of devices that $XDG_CACHE_HOME/trireme/gemm_peak.json
/// lacks ($HOME/.cache where XDG_CACHE_HOME is not set) are measured, for about 0.3 s, and added to
/// it. Nothing is measured where given_gemm_rate() has a value. Throws: JobError as that does.
double gemm_peak_of_all_ranks(const Context& context, int node_ranks);

}  // namespace trireme

namespace trireme::job {

// The directory of --gemm-cache, checked before anything is created on a GPU.

/// Collective. Creates the directory if it is missing. Adds to `problems` what keeps this rank from
/// writing there, or from seeing what rank 0 writes there: ranks with separate directories would
/// choose different algorithms.
void open_gemm_directory(const std::string& directory, const Host& host, Problems& problems);

}  // namespace trireme::job
