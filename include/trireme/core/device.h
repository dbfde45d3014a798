// Device, Stream and Event: where work runs and in which order. Concept before signatures:
// a Stream is an ordered queue. On a CPU each call runs at once on the caller and its pool; on CUDA
// it is queued and the host goes on. Code that is right for CUDA is right for CPUs, so write for
// CUDA. Nothing synchronises unless its name says `wait` or `synchronize`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trireme/core/buffer.h"
#include "trireme/core/tensor.h"
#include "trireme/core/thread_pool.h"

namespace trireme {

enum class DeviceKind { cpu, cuda };
const char* name(DeviceKind kind);

struct Kernels;  // the function table of a device; defined in kernels/kernels.h
class Stream;

/// A point in a stream that another stream can wait for.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  /// Work put on `stream` from now on starts after the recorded point.
  virtual void make_wait(Stream& stream) = 0;
  virtual bool reached() const = 0;
  /// Blocks the host until the recorded point is reached.
  virtual void synchronize() = 0;
  /// Time from the point of `earlier` to this one. Both are timers, recorded on one stream, and
  /// reached. Throws: Error when they are not.
  virtual double seconds_since(const Event& earlier) const;
};

/// A device in use by this rank: makes memory, streams and events, and has the kernels.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  /// Which one of its kind, of those that this process sees.
  virtual int index() const { return 0; }
  /// A name that is the same for all processes, and whatever each of them sees of the node; without
  /// spaces.
  virtual std::string identity() const { return name(kind()); }
  /// One line for people: model, instruction set or compute capability, threads, memory.
  virtual std::string describe() const = 0;
  virtual const Kernels& kernels() const = 0;
  /// Zero-filled, aligned to 4096 bytes. Throws: Error that names the bytes asked for and free.
  virtual Buffer allocate(Index bytes) = 0;
  /// Memory of the host that copies to and from this device can use while both go on. Zero-filled,
  /// aligned to 4096 bytes.
  virtual Buffer allocate_pinned(Index bytes) { return allocate_host(bytes); }
  virtual Index free_bytes() const = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// An event that keeps the time at which it is reached. The default is for devices that run each
  /// call at once: the clock of the host when it is recorded.
  virtual std::unique_ptr<Event> make_timer();
  /// `f` is called now and then while the host waits for this device, and may throw: what is waited
  /// for may never come. To free memory is to wait, too: `f` is called before, and memory that it
  /// throws for is kept, and freed later. One for a device; empty: none. A host does not wait for a
  /// CPU.
  virtual void while_waiting(const std::function<void()>& /*f*/) {}
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
  /// to = from, to += from: one shape, any strides; one dtype, or f32 and bf16, which are converted
  /// (a sum is made in f32 and rounded once). Implemented by the device's kernels.
  virtual void copy(const Tensor& to, const Tensor& from) = 0;
  virtual void add(const Tensor& to, const Tensor& from) = 0;
  /// For debugging (`--check-finite`): waits for the stream.
  virtual bool wait_and_check_finite(const Tensor& x) = 0;
  /// Blocks the host until all work queued so far is done.
  virtual void synchronize() = 0;
  /// The threads that host kernels run on. Throws: Error on a CUDA stream.
  virtual ThreadPool& pool() = 0;
  /// Calls that have put something on this stream since it was made; 0 where calls run at once.
  virtual Index operations() const { return 0; }
  /// The raw queue (cudaStream_t) for user kernels; null on a CPU.
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
