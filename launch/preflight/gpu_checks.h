// GPUs of a node: what the driver says of them, and what they compute.
#pragma once

#include <memory>
#include <string>

#include "trireme/core/device.h"

#include "launch/preflight/report.h"

namespace trireme::preflight {

/// Number, names, driver, and signs of trouble by NVML (docs/gpu/health.md): fatal ones are faults,
/// others warnings. Memory: 64 MiB of each are written and read. A node without GPUs says so in its
/// facts.
void check_gpus(Node& node);
/// Products of each GPU for a tenth of a second; the slowest one counts.
void measure_gpus(Node& node);

/// The build of the CUDA module in use; empty: the installed one.
std::string cuda_module();
/// What Device::describe says of a GPU, without its index and its free memory.
std::string model_of(const Device& gpu);

}  // namespace trireme::preflight
