#include "runtime/comm/nccl/calls.h"

#include <chrono>

#include <sched.h>

namespace trireme::nccl {

void wait_until_done(ncclComm_t comm, ncclResult_t result, FunctionRef<std::string()> describe,
                     const WaitOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  // ncclCommSplit of NCCL 2.28 returns ncclSuccess while it is in progress: only the communicator
  // knows.
  while (result == ncclSuccess || result == ncclInProgress) {
    check(ncclCommGetAsyncError(comm, &result), "ncclCommGetAsyncError");
    if (result == ncclSuccess) return;
    if (result != ncclInProgress) break;
    options.meanwhile();
    if (Clock::now() - begun > std::chrono::duration<double>(options.timeout_s))
      throw Error(str(describe(), " has not begun after ", options.timeout_s,
                      " s: have all ranks come to it?"));
    ::sched_yield();
  }
  check(result, describe().c_str());
}

void NcclHandle::abort() noexcept {
  if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
}

void NcclHandle::finish(const WaitOptions& options) {
  wait_until_done(
      comm_, ncclCommFinalize(comm_), [] { return std::string("ncclCommFinalize"); }, options);
  check(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
}

}  // namespace trireme::nccl
