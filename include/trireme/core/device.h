// Device, Stream and Event: where work runs and in which order. A Stream is an ordered queue. On a
// CPU each call runs immediately, on the caller and its thread pool. On CUDA it is queued and the
// host continues. Code that is correct for CUDA is correct for CPUs, so write for CUDA. Nothing
// synchronises unless its name says `wait` or `synchronize`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/core/buffer.h"
#include "trireme/core/device_traits.h"
#include "trireme/core/tensor.h"
#include "trireme/core/thread_pool.h"

namespace trireme {

struct Kernels;  // the function table of a device; defined in kernels/kernels.h
class Stream;

/// A point in a stream that another stream can wait for.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  /// Work queued on `stream` from now on starts after the recorded point.
  virtual void make_wait(Stream& stream) = 0;
  virtual bool reached() const = 0;
  /// Blocks the host until the recorded point is reached.
  virtual void synchronize() = 0;
  /// Seconds from the point of `earlier` to this one. Both must be timers, recorded on the same
  /// stream, and reached. Throws: Error when they are not.
  virtual double seconds_since(const Event& earlier) const;
};

/// A device in use by this rank: creates memory, streams and events, and provides the kernels.
class Device {
 public:
  explicit Device(const DeviceTraits& traits) : traits_(traits) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// What plans for it depend on.
  const DeviceTraits& traits() const { return traits_; }
  DeviceKind kind() const { return traits_.kind; }
  /// Its index among the devices of its kind that this process sees.
  virtual int index() const { return 0; }
  /// A name without spaces that is the same in all processes, whichever devices each of them sees.
  virtual std::string identity() const { return name(kind()); }
  /// One line for people: model, instruction set or compute capability, threads, memory.
  virtual std::string describe() const = 0;
  virtual const Kernels& kernels() const = 0;
  /// Zero-filled, aligned to 4096 bytes. Throws: Error that names the requested and the free bytes.
  virtual Buffer allocate(Index bytes) = 0;
  /// Host memory for asynchronous copies to and from this device. Zero-filled, aligned to 4096
  /// bytes.
  virtual Buffer allocate_pinned(Index bytes) { return allocate_host(bytes); }
  virtual Index free_bytes() const = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// An event that stores the time at which it is reached. The default suits devices that run each
  /// call immediately: it stores the time of the host clock when it is recorded.
  virtual std::unique_ptr<Event> make_timer();
  /// Calls `f` repeatedly while the host waits for this device. `f` may throw, because the work may
  /// never complete. Freeing memory waits too: `f` is called first, and if it throws the memory is
  /// kept and freed later. One function per device; an empty one means none. No effect on a CPU,
  /// for which the host never waits.
  virtual void while_waiting(const std::function<void()>& /*f*/) {}

 private:
  DeviceTraits traits_;
};

class Stream {
 public:
  explicit Stream(Device& device) : device_(device) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  const Kernels& kernels() const { return device_.kernels(); }
  /// Copies in any direction (host, device); in stream order.
  virtual void copy(void* to, const void* from, Index bytes) = 0;
  virtual void zero(void* data, Index bytes) = 0;
  /// to = from, and to += from. Same shape, any strides; same dtype, or f32 and bf16, which are
  /// converted (a sum is computed in f32 and rounded once). Implemented by the device's kernels.
  virtual void copy(const Tensor& to, const Tensor& from) = 0;
  virtual void add(const Tensor& to, const Tensor& from) = 0;
  /// For debugging (`--check-finite`): waits for the stream.
  virtual bool wait_and_check_finite(const Tensor& x) = 0;
  /// Blocks the host until all work queued so far is done.
  virtual void synchronize() = 0;
  /// The threads that host kernels run on. Throws: Error on a CUDA stream.
  virtual ThreadPool& pool() = 0;
  /// Number of calls that have queued work on this stream; 0 on devices that run calls immediately.
  virtual Index operations() const { return 0; }
  /// The native stream (cudaStream_t) for user kernels; null on a CPU.
  virtual void* native() const { return nullptr; }

 private:
  Device& device_;
};

/// Host loop of a kernel: f(begin, end) over [0, count) on the stream's threads.
inline void parallel_for(Stream& stream, Index count, Index grain,
                         FunctionRef<void(Index, Index)> f) {
  stream.pool().parallel_for(count, grain, f);
}

}  // namespace trireme
