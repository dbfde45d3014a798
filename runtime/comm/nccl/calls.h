// NCCL and the few CUDA calls of this folder: checked, with owners for what they create. The folder
// is part of the CUDA module; the rest of trireme sees nothing of it.
#pragma once

#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "trireme/core/device.h"
#include "trireme/core/error.h"
#include "trireme/core/function_ref.h"

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1), "ncclCommSplit came with NCCL 2.18.1");

namespace trireme::nccl {

/// Throws: Error with the text of `result` and NCCL's last error message.
inline void check(ncclResult_t result, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (result != ncclSuccess) [[unlikely]]
    throw Error(str(call, ": ", ncclGetErrorString(result), " (", ncclGetLastError(nullptr), ")"),
                where);
}

inline void check(cudaError_t error, const char* call,
                  std::source_location where = std::source_location::current()) {
  if (error != cudaSuccess) [[unlikely]]
    throw Error(str(call, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error)), where);
}

template <auto destroy>
struct DestroyBy {
  template <class T>
  void operator()(T* object) const {
    destroy(object);
  }
};
using OwnedEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyBy<cudaEventDestroy>>;
using OwnedStream =
    std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyBy<cudaStreamDestroy>>;

inline OwnedEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return OwnedEvent(event);
}

/// A stream that no other one waits for, of the highest priority: a collective delays other ranks,
/// a kernel only this one.
inline OwnedStream make_cuda_stream() {
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "cudaStreamCreate");
  return OwnedStream(stream);
}

inline bool reached(const OwnedEvent& event) {
  const cudaError_t state = cudaEventQuery(event.get());
  if (state == cudaErrorNotReady) return false;
  check(state, "cudaEventQuery");
  return true;
}

/// The stream passed to operations of the host mesh. They run immediately and do not use it.
class NoStream final : public Stream {
 public:
  explicit NoStream(Device& device) : Stream(device) {}
  void copy(void*, const void*, Index) override { refuse(); }
  void zero(void*, Index) override { refuse(); }
  void copy(const Tensor&, const Tensor&) override { refuse(); }
  void add(const Tensor&, const Tensor&) override { refuse(); }
  bool wait_and_check_finite(const Tensor&) override { refuse(); }
  void synchronize() override {}
  ThreadPool& pool() override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw Error("work on a stream that is none"); }
};

// NcclHandle: the owner of one NCCL communicator. Communicators here are non-blocking: a call may
// return while it is in progress, and the next may follow only when it is done (wait_until_done).
// So a missing rank causes an error after a time-out instead of a hang.

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
