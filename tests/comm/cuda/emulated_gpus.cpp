// The ranks of the emulation.
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_device.h"
#include "runtime/comm/nccl/nccl_mesh.h"
#include "tests/comm/cuda/gpu_ranks.h"
#include "tests/cuda_emulation/streams.h"

namespace trireme {

GpuRanks open_gpu_ranks(const MeshShape& shape, const NcclOptions& options) {
  GpuRanks ranks;
  ranks.host = mpi_session().make_mesh(shape, {.timeout_s = 60});
  ranks.gpu = std::make_unique<CudaDevice>(0);
  ranks.stream = ranks.gpu->make_stream();
  ranks.mesh = std::make_unique<NcclMesh>(*ranks.host, *ranks.gpu, options);
  return ranks;
}

GpuRanks open_gpu_ranks(const NcclOptions& options) {
  return open_gpu_ranks(MeshShape(mpi_session().size(), 1, 1), options);
}

void in_every_schedule(const std::function<void()>& f) {
  auto& streams = emulation::Streams::instance();
  // What open_gpu_ranks makes next: the stream of compute, then those of the groups, world first.
  const std::string compute = "ahead:" + std::to_string(streams.count());
  const std::string world = "ahead:" + std::to_string(streams.count() + 1);
  const std::vector<std::string> schedules = {"eager", "lazy",     compute,
                                              world,   "random:1", "random:2"};
  for (const bool mixed : {false, true})
    for (std::size_t s = 0; s < schedules.size(); ++s) {
      if (mixed && mpi_session().size() == 1) continue;
      const std::size_t shift = mixed ? static_cast<std::size_t>(mpi_session().rank()) : 0;
      const std::string& schedule = schedules[(s + shift) % schedules.size()];
      SCOPED_TRACE(schedule);
      streams.set_schedule(schedule);
      f();
    }
  streams.set_schedule("eager");
}

}  // namespace trireme
