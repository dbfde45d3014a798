#include "runtime/job/device_choice.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include <sched.h>
#include <unistd.h>

#include "trireme/comm/agree.h"
#include "trireme/core/error.h"

#include "kernels/cuda.h"

namespace trireme::job {
namespace {

using Gpus = std::vector<std::string>;  // what a rank sees, by Device::identity

/// The GPU of each rank among those that it sees, or -1: ranks choose one after the other, and take
/// the first one that has a free place. A node may show all its GPUs to all its ranks, or each rank
/// its own, as launchers do with CUDA_VISIBLE_DEVICES.
std::vector<int> deal(const std::vector<Gpus>& seen, Index ranks_per_gpu) {
  std::map<std::string, Index> users;
  std::vector<int> chosen;
  for (const Gpus& gpus : seen) {
    const auto free = std::find_if(gpus.begin(), gpus.end(), [&](const std::string& gpu) {
      return users[gpu] < ranks_per_gpu;
    });
    chosen.push_back(free == gpus.end() ? -1 : static_cast<int>(free - gpus.begin()));
    if (free != gpus.end()) ++users[*free];
  }
  return chosen;
}

std::string why_none_is_left(const std::vector<Gpus>& seen, const Gpus& mine, Index ranks_per_gpu) {
  const auto gpus = static_cast<Index>(mine.size());
  const Index ranks = std::count_if(seen.begin(), seen.end(), [&](const Gpus& theirs) {
    return std::find_first_of(theirs.begin(), theirs.end(), mine.begin(), mine.end()) !=
           theirs.end();
  });
  return str(ranks, " ranks see the same ", gpus, gpus == 1 ? " GPU" : " GPUs", "; start at most ",
             gpus * ranks_per_gpu, " of them on a node, or share GPUs with --ranks-per-gpu ",
             (ranks + gpus - 1) / gpus, ", or use --device cpu");
}

}  // namespace

std::string cuda_module() {
  const char* path = std::getenv("TRIREME_CUDA_MODULE");
  return path == nullptr ? "" : path;
}

DeviceChoice choose_device(const Options& options, const Host& host, const std::string& module,
                           Problems& problems) {
  DeviceChoice choice;
  choice.module = module;
  if (options.device == DeviceOption::cpu) return choice;
  std::string none;
  const Gpus mine = find_gpus({0, module}, none);
  // One rank without a GPU keeps all ranks from using theirs: report which, and why.
  const std::vector<std::string> reasons = gather_strings(host, mine.empty() ? none : "");
  for (std::size_t rank = 0; rank < reasons.size(); ++rank)
    if (!reasons[rank].empty()) {
      choice.reason = str(reasons.size() > 1 ? str("rank ", rank, ": ") : "", reasons[rank]);
      if (options.device == DeviceOption::cuda)
        problems.add("--device cuda: no GPU can be used: ", choice.reason,
                     "; use --device cpu, or auto");
      return choice;
    }
  choice.cuda = true;
  const std::vector<Gpus> seen = gather_lists(host, mine);
  choice.gpu = deal(seen, options.ranks_per_gpu)[static_cast<std::size_t>(host.rank())];
  if (choice.gpu < 0)
    problems.add("--device ", options.device == DeviceOption::cuda ? "cuda" : "auto", ": ",
                 why_none_is_left(seen, mine, options.ranks_per_gpu));
  return choice;
}

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

namespace trireme {
namespace {

std::string cores(const cpu_set_t& set) {
  return str(CPU_COUNT(&set), CPU_COUNT(&set) == 1 ? " core" : " cores");
}

}  // namespace

int cores_of_this_process() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  return sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
}

std::string widen_affinity(Index threads, const std::string& why) {
  cpu_set_t mine, launcher;
  CPU_ZERO(&mine);
  CPU_ZERO(&launcher);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) >= threads) return "";
  if (sched_getaffinity(getppid(), sizeof launcher, &launcher) != 0 ||
      CPU_COUNT(&launcher) <= CPU_COUNT(&mine) ||
      sched_setaffinity(0, sizeof launcher, &launcher) != 0)
    return str(why, ": this rank may use ", cores(mine), " only");
  return str(why, ": ranks were bound to ", cores(mine), " each; now they may use ",
             cores(launcher));
}

}  // namespace trireme
