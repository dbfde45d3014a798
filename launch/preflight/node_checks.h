// What one node finds out about itself and its GPUs: facts, figures, faults and warnings.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "trireme/comm/host.h"
#include "trireme/core/device.h"

#include "launch/preflight/report.h"

namespace trireme::preflight {

struct Checks {
  bool thorough = false;  // the long preflight
  double steady_s = 30;   // time for products in the long preflight
  std::string run_dir;    // to be written to; empty: not checked
  std::function<void(std::string_view check)> begins = [](std::string_view) {};
};
/// A check that cannot be made is a fault of the node.
void guarded(Node& node, const Checks& checks, std::string_view what,
             const std::function<void()>& check);

/// Everything that takes no part of another node. Never throws: what fails is a fault.
Node check_node(const std::string& host, const Checks& checks);
/// The figures that depend on speed, once more.
void measure_speed(Node& node, const Checks& checks);

// GPUs of a node: what the driver says of them, and what they compute.

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

// One GPU under load, in a process of its own: rates, memory, and bits to compare with other GPUs.

/// Sizes of the products, so that all GPUs compute the same; one each for f32 and bf16.
using ProductSizes = std::array<Index, 2>;
/// Returns the largest sizes that no GPU takes long for. Collective.
ProductSizes agree_on_sizes(const Host& host, Stream& gpu);

/// `checks.steady_s` is shared by the two types. Never throws: what fails is a fault.
Node check_gpu(const std::string& name, Stream& gpu, const Checks& checks,
               const ProductSizes& sizes);
/// The figures that depend on speed, once more.
void measure_gpu(Node& node, Stream& gpu, const Checks& checks, const ProductSizes& sizes);

}  // namespace trireme::preflight
