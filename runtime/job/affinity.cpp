#include "runtime/job/affinity.h"

#include <sched.h>
#include <unistd.h>

#include "trireme/core/error.h"

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
