#include "runtime/graph/constants.h"

#include "runtime/core/round_up.h"

namespace trireme {

std::vector<Index> constant_offsets(const Graph& graph) {
  constexpr Index alignment = 64;
  std::vector<Index> offsets = {0};
  for (const ConstantPtr& constant : graph.constants())
    offsets.push_back(offsets.back() + round_up(constant->bytes(), alignment));
  return offsets;
}

void write_constants(const Graph& graph, std::byte* memory, Stream& stream) {
  Device& device = stream.device();
  const std::vector<Index> offsets = constant_offsets(graph);
  for (std::size_t i = 0; i < graph.constants().size(); ++i) {
    const Constant& constant = *graph.constants()[i];
    std::byte* to = memory + offsets[i];
    if (device.kind() == DeviceKind::cpu) {
      constant.write(to);
      continue;
    }
    const Buffer staging = device.allocate_pinned(constant.bytes());
    constant.write(staging.data());
    stream.copy(to, staging.data(), constant.bytes());
    stream.synchronize();
  }
}

}  // namespace trireme
