#include "runtime/train/affinity.h"

#include <sched.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme {

int cores_of_this_process() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  return sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
}

std::string widen_affinity(Index threads) {
  cpu_set_t mine, launcher;
  CPU_ZERO(&mine);
  CPU_ZERO(&launcher);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) >= threads) return "";
  if (sched_getaffinity(getppid(), sizeof launcher, &launcher) != 0 ||
      CPU_COUNT(&launcher) <= CPU_COUNT(&mine) ||
      sched_setaffinity(0, sizeof launcher, &launcher) != 0)
    return str("--threads-per-rank ", threads, ": this rank may use ", CPU_COUNT(&mine),
               " cores only");
  return str("--threads-per-rank ", threads, ": ranks were bound to ", CPU_COUNT(&mine),
             " cores each; now they may use ", CPU_COUNT(&launcher));
}

}  // namespace trireme
