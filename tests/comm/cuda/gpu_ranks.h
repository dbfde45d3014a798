// Ranks with a GPU each (the emulated one): what tests of NCCL groups start from. Tests are
// collective.
#pragma once

#include <functional>
#include <memory>

#include "runtime/comm/nccl.h"
#include "tests/support/mpi_ranks.h"

namespace trireme {

/// In the order in which they are made.
struct GpuRanks {
  std::unique_ptr<Mesh> host;
  std::unique_ptr<Device> gpu;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Mesh> mesh;
  int size() const { return mesh->shape().size(); }
};
/// The order of collectives is checked, whatever `options` say.
GpuRanks open_gpu_ranks(const MeshShape& shape, const NcclOptions& options = {});
/// All ranks along the data axis.
GpuRanks open_gpu_ranks(const NcclOptions& options = {});

/// Calls f under every order of streams that the emulation knows, the same on all ranks and mixed
/// among them; once on real GPUs.
void in_every_schedule(const std::function<void()>& f);

}  // namespace trireme
