// GPUs of a node: what the driver says of them, and what they compute.
#pragma once

#include "launch/preflight/report.h"

namespace trireme::preflight {

/// Number, names, driver, and signs of trouble by NVML (docs/gpu/health.md): fatal ones are faults,
/// others warnings. Memory: 64 MiB of each are written and read. A node without GPUs says so in its
/// facts.
void check_gpus(Node& node);
/// Products of each GPU; the slowest one counts.
void measure_gpus(Node& node);

}  // namespace trireme::preflight
