// One GPU under load, in a process of its own: rates, memory, and bits to compare with other GPUs.
#pragma once

#include <array>
#include <string>

#include "trireme/comm/host.h"

#include "launch/preflight/node_checks.h"
#include "launch/preflight/report.h"

namespace trireme::preflight {

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
