// The entry points of the CUDA runtime that trireme's module calls, on the host: memory that is
// checked, streams that are queues (streams.h), kernels that run on fibers (grid.h). Devices report
// themselves as sm_90, unless set otherwise; a process uses one of them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include <cuda_runtime_api.h>
#include <malloc.h>

#include "tests/cuda_emulation/device_code.h"
#include "tests/cuda_emulation/host_waits.h"
#include "tests/cuda_emulation/memory.h"
#include "tests/cuda_emulation/settings.h"
#include "tests/cuda_emulation/streams.h"

#if defined(EMULATION_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace trireme::emulation {
namespace {

constexpr std::size_t allocation_alignment = 256;
constexpr int poison = 0xff;
constexpr int l2_bytes = 64 << 10;

/// Recordings in a queue keep it, too: an event may be destroyed before it is reached.
struct Event {
  Stream* stream = nullptr;
  std::uint64_t sequence = 0;
  double reached_us = 0;
  bool timed = false;
};

/// Device memory and the last error.
struct Memory {
  std::map<char*, std::size_t> blocks, pinned;
  std::size_t used = 0;
  std::size_t capacity = std::strtoull(setting("EMULATION_DEVICE_MB", "4096").c_str(), nullptr, 10)
                         << 20;
  cudaError_t last = cudaSuccess;

  Memory() {
    // Large blocks come from the heap, too, which keeps its pages: every stream has a workspace,
    // every test a stream.
    constexpr int never = 1 << 30;
    mallopt(M_MMAP_THRESHOLD, never);
    mallopt(M_TRIM_THRESHOLD, never);
  }
  bool holds(const void* data, std::size_t bytes) const { return lies_in(blocks, data, bytes); }
  bool is_pageable(const void* data, std::size_t bytes) const {
    return !holds(data, bytes) && !lies_in(pinned, data, bytes);
  }

 private:
  static bool lies_in(const std::map<char*, std::size_t>& blocks, const void* data,
                      std::size_t bytes) {
    auto after = blocks.upper_bound(static_cast<char*>(const_cast<void*>(data)));
    if (after == blocks.begin()) return false;
    --after;
    return static_cast<const char*>(data) + bytes <= after->first + after->second;
  }
};

Memory& memory() {
  static Memory one;
  return one;
}

/// Of a device: 90 for 9.0.
int capability() { return std::atoi(setting("EMULATION_CAPABILITY", "90").c_str()); }
int driver() { return std::atoi(setting("EMULATION_DRIVER", "13000").c_str()); }
/// Each rank sees one GPU, and each another one.
bool own_device() { return setting("EMULATION_DEVICES", "8") == "own"; }
int devices() { return own_device() ? 1 : std::atoi(setting("EMULATION_DEVICES", "8").c_str()); }

Stream& stream_of(cudaStream_t stream) {
  return stream == nullptr ? Streams::instance().default_stream()
                           : *reinterpret_cast<Stream*>(stream);
}
using SharedEvent = std::shared_ptr<Event>;
SharedEvent& shared_event(cudaEvent_t event) { return *reinterpret_cast<SharedEvent*>(event); }
Event& event_of(cudaEvent_t event) { return *shared_event(event); }

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) memory().last = error;
  return error;
}

/// The device that this process uses, and the one that this thread's calls go to.
int used_device = 0;
thread_local int current_device = 0;
void check_current_device(const char* call) {
  if (current_device == used_device) return;
  std::fprintf(stderr,
               "cuda emulation: '%s' by a thread whose device is %d, not %d: cudaSetDevice is for "
               "one thread\n",
               call, current_device, used_device);
  std::abort();
}

HostWaits host_waits;

/// A wait that does not go through a query, so no other stream advances meanwhile.
void wait_until(Stream& stream, std::uint64_t sequence) {
  if (stream.done(sequence)) return;
  host_waits.count(HostWaits::Of::stream);
  Streams::instance().run_until(stream, sequence);
}

void push(cudaStream_t stream, const char* name, std::function<void()> operation) {
  check_current_device(name);
  Streams::instance().push(stream_of(stream), name, [operation = std::move(operation)] {
    operation();
    return true;
  });
}

/// Copies from pageable memory of more than this may have to be staged.
std::size_t staged_bytes() {
  static const std::size_t bytes =
      std::strtoull(setting("EMULATION_STAGED_KB", "64").c_str(), nullptr, 10) << 10;
  return bytes;
}

/// A fault that tests plant: streams that do not wait. EMULATION_WITHOUT_WAITS=before_urgent (an
/// urgent stream for what comes before it), after_urgent (anybody for an urgent one), others
/// (ordinary streams for each other).
bool left_out(const Stream& waiting, const Stream& other) {
  static const std::string which = setting("EMULATION_WITHOUT_WAITS", "none");
  if (which == "none") return false;
  if (which == "before_urgent") return waiting.urgent();
  if (which == "after_urgent") return other.urgent();
  if (which == "others") return !waiting.urgent() && !other.urgent();
  refuse_setting(which, "before_urgent, after_urgent, others");
}

}  // namespace

bool is_device_memory(const void* data, std::size_t bytes) { return memory().holds(data, bytes); }

bool take_device_memory(std::size_t bytes) {
  Memory& m = memory();
  if (m.used + bytes > m.capacity) return false;
  m.used += bytes;
  return true;
}
void give_back_device_memory(std::size_t bytes) { memory().used -= bytes; }

void enqueue(cudaStream_t stream, const char* name, std::function<void()> operation) {
  push(stream, name, std::move(operation));
}

}  // namespace trireme::emulation

using namespace trireme::emulation;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (driver() < CUDART_VERSION / 1000 * 1000) return result(cudaErrorInsufficientDriver);
  *count = devices();
  return *count > 0 ? cudaSuccess : result(cudaErrorNoDevice);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return result(cudaErrorInvalidDevice);
  used_device = current_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 4;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(most_shared_bytes());
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = capability() / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = capability() % 10;
      return cudaSuccess;
    default:
      return result(cudaErrorInvalidValue);
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "host emulation");
  properties->major = capability() / 10;
  properties->minor = capability() % 10;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = memory().capacity;
  properties->l2CacheSize = l2_bytes;
  const int number =
      own_device() ? std::atoi(setting("OMPI_COMM_WORLD_LOCAL_RANK", "0").c_str()) : device;
  properties->uuid.bytes[15] = static_cast<char>(number);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(memory().last, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess                 ? "cudaSuccess"
         : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
         : error == cudaErrorInvalidValue     ? "cudaErrorInvalidValue"
         : error == cudaErrorLaunchFailure    ? "cudaErrorLaunchFailure"
                                              : "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory"
         : error == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
                                            : cudaGetErrorName(error);
}
cudaError_t cudaFuncSetAttribute(const void* /*kernel*/, cudaFuncAttribute /*attribute*/,
                                 int /*value*/) {
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  check_current_device("cudaMalloc");
  Memory& m = memory();
  *data = nullptr;
  if (m.used + bytes > m.capacity) return result(cudaErrorMemoryAllocation);
  const std::size_t whole =
      (bytes + allocation_alignment - 1) / allocation_alignment * allocation_alignment;
  *data = std::aligned_alloc(allocation_alignment, std::max(whole, allocation_alignment));
  if (*data == nullptr) return result(cudaErrorMemoryAllocation);
  std::memset(*data, poison, bytes);
  m.blocks[static_cast<char*>(*data)] = bytes;
  m.used += bytes;
#if defined(EMULATION_ADDRESS_SANITIZER)
  __asan_poison_memory_region(static_cast<char*>(*data) + bytes, whole - bytes);
#endif
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  Streams::instance().run_all();
  Memory& m = memory();
  const auto block = m.blocks.find(static_cast<char*>(data));
  if (block == m.blocks.end()) return result(cudaErrorInvalidValue);
  m.used -= block->second;
  m.blocks.erase(block);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  *data = std::aligned_alloc(allocation_alignment, (bytes + allocation_alignment - 1) /
                                                       allocation_alignment * allocation_alignment);
  if (*data == nullptr) return result(cudaErrorMemoryAllocation);
  std::memset(*data, poison, bytes);
  memory().pinned[static_cast<char*>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  Streams::instance().run_all();
  memory().pinned.erase(static_cast<char*>(data));
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = memory().capacity;
  *free = memory().capacity - memory().used;
  return cudaSuccess;
}

/// A wrong kind, the wrong side, or a range that is no allocation is refused, as a GPU would fault.
/// Who waits is as CUDA documents it
/// ("API synchronization behavior"), at its worst: what goes from the device to pageable memory,
/// and from host to host, holds its caller until it is there; much of what comes from pageable
/// memory holds it until all before it is done, since the driver may have to stage it. What comes
/// from pageable memory is read when the stream gets there, which is as late as CUDA may.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault &&
      (to_device != memory().holds(to, bytes) || from_device != memory().holds(from, bytes)))
    return result(cudaErrorInvalidValue);
  const bool at_device = memory().holds(to, bytes), of_device = memory().holds(from, bytes);
  const auto wait_for_all = [&] { wait_until(stream_of(stream), stream_of(stream).issued()); };
  if (at_device && memory().is_pageable(from, bytes) && bytes > staged_bytes()) wait_for_all();
  push(stream, "copy", [=] { std::memmove(to, from, bytes); });
  if (!at_device && (!of_device || memory().is_pageable(to, bytes))) wait_for_all();
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (!memory().holds(data, bytes)) return result(cudaErrorInvalidValue);
  push(stream, "set", [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void* data, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  if (width > pitch || !memory().holds(data, (height - 1) * pitch + width))
    return result(cudaErrorInvalidValue);
  push(stream, "set", [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memset(static_cast<char*>(data) + row * pitch, value, width);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = reinterpret_cast<cudaStream_t>(&Streams::instance().make(Urgency::ordinary));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  const Urgency urgency = priority < 0 ? Urgency::urgent : Urgency::ordinary;
  *stream = reinterpret_cast<cudaStream_t>(&Streams::instance().make(urgency));
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Stream& s = stream_of(stream);
  return host_waits.ask(HostWaits::Of::stream, &s, s, s.issued());
}
/// As CUDA's, it does not wait: what is left in the stream runs when it can.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return stream == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  wait_until(stream_of(stream), stream_of(stream).issued());
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Event& e = event_of(event);
  if (e.stream == nullptr || left_out(stream_of(stream), *e.stream)) return cudaSuccess;
  Streams::instance().push_wait(stream_of(stream), *e.stream, e.sequence);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  auto* created = new SharedEvent(std::make_shared<Event>());
  (*created)->timed = (flags & cudaEventDisableTiming) == 0;
  *event = reinterpret_cast<cudaEvent_t>(created);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &shared_event(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const SharedEvent e = shared_event(event);
  e->stream = &stream_of(stream);
  e->sequence = e->stream->issued() + 1;
  push(stream, "event", [e] { e->reached_us = Streams::instance().clock_us(); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  const Event &first = event_of(start), &last = event_of(end);
  if (!first.timed || !last.timed || last.stream == nullptr || first.stream == nullptr)
    return result(cudaErrorInvalidResourceHandle);
  if (!last.stream->done(last.sequence)) return result(cudaErrorNotReady);
  *ms = static_cast<float>((last.reached_us - first.reached_us) * 1e-3);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Event& e = event_of(event);
  if (e.stream == nullptr) return cudaSuccess;
  return host_waits.ask(HostWaits::Of::event, &e, *e.stream, e.sequence);
}

}  // extern "C"
