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
  ranks.gpu = std::make_unique<kernels::CudaDevice>(0);
  ranks.stream = ranks.gpu->make_stream();
  NcclOptions checked = options;
  checked.order_check = OrderCheck::on;
  ranks.mesh = std::make_unique<nccl::NcclMesh>(*ranks.host, *ranks.gpu, checked);
  return ranks;
}

GpuRanks open_gpu_ranks(const NcclOptions& options) {
  return open_gpu_ranks(MeshShape(mpi_session().size(), 1, 1), options);
}

namespace {

enum class Among { all_ranks_alike, each_rank_another };

void in_every_schedule(Among among, const std::function<void()>& f) {
  auto& streams = emulation::Streams::instance();
  constexpr int schedules = 6;
  for (int s = 0; s < schedules; ++s) {
    // What open_gpu_ranks makes next: the stream of compute, then those of the groups, world first.
    const std::string compute = str("ahead:", streams.count());
    const std::string world = str("ahead:", streams.count() + 1);
    const std::string all[schedules] = {"eager", "lazy", compute, world, "random:1", "random:2"};
    const int shift = among == Among::each_rank_another ? mpi_session().rank() : 0;
    const std::string& schedule = all[(s + shift) % schedules];
    SCOPED_TRACE(schedule);
    streams.set_schedule(schedule);
    f();
  }
  streams.set_schedule("eager");
}

}  // namespace

void in_every_schedule(const std::function<void()>& f) {
  in_every_schedule(Among::all_ranks_alike, f);
  if (mpi_session().size() > 1) in_every_schedule(Among::each_rank_another, f);
}

}  // namespace trireme
