// The constants of a graph in memory: where each lies, and their content on a device.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/core/device.h"
#include "trireme/graph/graph.h"

namespace trireme {

/// Bytes from the start of their memory to each constant, and after the last one to the end.
std::vector<Index> constant_offsets(const Graph& graph);
inline Index constant_bytes(const Graph& graph) { return constant_offsets(graph).back(); }

/// Writes the content of all constants to `memory`, constant_bytes() of the stream's device,
/// aligned to 64. Waits for the stream.
void write_constants(const Graph& graph, std::byte* memory, Stream& stream);

}  // namespace trireme
