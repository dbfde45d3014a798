// How much workspace a kernel will need, queried while tracing: from the device that the graph is
// planned for, or from one thread of a CPU if none is open yet (plans of other machines).
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"

namespace trireme::nn_detail {

/// ask(kernels, device) -> bytes
template <class F>
Index workspace_bytes(const Graph& graph, F&& ask) {
  if (graph.device() != nullptr) return ask(graph.device()->kernels(), *graph.device());
  const std::unique_ptr<Device> one_thread = open_cpu();
  return ask(one_thread->kernels(), *one_thread);
}

}  // namespace trireme::nn_detail
