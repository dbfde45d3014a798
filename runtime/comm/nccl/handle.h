// NcclHandle: the owner of one NCCL communicator. Communicators here are non-blocking: a call may
// return while it is in progress, and the next may follow only when it is done (wait_until_done).
// So a missing rank causes an error after a time-out instead of a hang.
#pragma once

#include <utility>

#include "trireme/core/function_ref.h"

#include "runtime/comm/nccl/calls.h"

namespace trireme::nccl {

/// How a host waits for NCCL: `meanwhile` is called in between and may throw.
struct WaitOptions {
  double timeout_s;
  FunctionRef<void()> meanwhile;
};

/// Waits until the work that a call started on `comm` is done. `result` is what the call returned,
/// whether or not it says "in progress". Throws: Error that begins with describe() when the work
/// failed or took too long.
void wait_until_done(ncclComm_t comm, ncclResult_t result, FunctionRef<std::string()> describe,
                     const WaitOptions& options);

class NcclHandle {
 public:
  NcclHandle() = default;
  explicit NcclHandle(ncclComm_t comm) : comm_(comm) {}
  NcclHandle(NcclHandle&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  NcclHandle& operator=(NcclHandle&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~NcclHandle() { abort(); }

  ncclComm_t get() const { return comm_; }
  /// Aborts pending operations on this rank only; ranks that wait for this one never complete.
  void abort() noexcept;
  /// Collective: waits until all ranks have ended their operations. Throws: Error when that fails,
  /// or not in time.
  void finish(const WaitOptions& options);

 private:
  ncclComm_t comm_ = nullptr;
};

}  // namespace trireme::nccl
