#include "runtime/job/gpu_environment.h"

#include <cstdlib>
#include <string>

#include "trireme/core/error.h"

namespace trireme::job {

void set_gpu_environment(const Options& options, int rank, int ranks) {
  if (options.device == DeviceOption::cpu || ranks == 1) return;
  const auto set = [](const char* name, const std::string& value) {
    require(setenv(name, value.c_str(), 0) == 0, "no memory for the environment");
  };
  // CUDA loads a kernel when it is first launched, and may wait for the whole device to do so: for
  // a collective that waits for another rank, which does the same.
  set("CUDA_MODULE_LOADING", "EAGER");
  // NVLink's switches add in an order that is not the same in every call (NVIDIA/nccl#1497).
  set("NCCL_NVLS_ENABLE", "0");
  if (options.ranks_per_gpu == 1) return;
  // NCCL rejects two ranks on one GPU. Before 2.30 each rank therefore pretends to be another host,
  // so data goes through sockets; from 2.30 on there is an option. Few thread blocks and the simple
  // protocol keep ranks from starving each other.
  set("NCCL_HOSTID", "rank" + std::to_string(rank));
  for (const char* name :
       {"NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"})
    set(name, "1");
  set("NCCL_MNNVL_ENABLE", "0");
  set("NCCL_NET", "Socket");
  set("NCCL_PROTO", "Simple");
  set("NCCL_MAX_CTAS", "2");
}

}  // namespace trireme::job
