// Watches the health of the GPUs that a job uses: on each node one rank asks the driver, logs what
// it finds, and ends the job when a GPU cannot be used any longer.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <string>

#include "trireme/job/run.h"

#include "runtime/observe/gpu_health/health_monitor.h"

namespace trireme::job {

/// Collective. Null on ranks that do not ask: all but the first of each node (`asks`). Findings go
/// to stderr, and to TRIREME_HEALTH/HOST-RANK.jsonl where `trireme run` has set that directory.
/// `gpu`: Device::identity of this rank's GPU.
std::unique_ptr<observe::HealthMonitor> watch_gpus(const Host& host, const std::string& gpu,
                                                   bool asks, const Log& log);

/// Does what the watch does when a GPU has fallen off the bus (Xid 79), for `trireme chaos`: says
/// so on stderr and to the supervisor, both times that it is simulated, and ends this process.
[[noreturn]] void end_as_if_gpu_was_lost(int rank);

}  // namespace trireme::job
