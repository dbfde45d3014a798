// Implements nccl.h.
// The NCCL mesh, from the CUDA module.
#include <array>

#include "runtime/comm/nccl.h"
#include "runtime/core/cuda_module.h"

namespace trireme {

std::unique_ptr<Mesh> open_nccl_mesh(Mesh& host, Device& gpu, const NcclOptions& options) {
  std::string reason;
  auto* open =
      find_in_cuda_module<decltype(trireme_nccl_open)>(options.module, "trireme_nccl_open", reason);
  require(open != nullptr, "GPUs cannot communicate: ", reason);
  std::array<char, 2048> text{};
  Mesh* mesh = open(&host, &gpu, &options, text.data(), static_cast<int>(text.size()));
  require(mesh != nullptr, text.data());
  return std::unique_ptr<Mesh>(mesh);
}

}  // namespace trireme
