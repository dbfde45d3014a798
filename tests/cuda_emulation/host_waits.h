// HostWaits: counts how often the host waits for the emulated GPU.
#pragma once

#include <cstdint>
#include <cstdio>

#include <cuda_runtime_api.h>

#include "tests/cuda_emulation/settings.h"
#include "tests/cuda_emulation/streams.h"

namespace trireme::emulation {

/// How often the host has waited for a stream or an event, and for which it does; said at the end
/// of a program with EMULATION_REPORT=1.
class HostWaits {
 public:
  enum class Of { stream, event };
  HostWaits() { Streams::instance(); }  // which so outlive it
  ~HostWaits() {
    if (setting("EMULATION_REPORT", "0") == "1")
      std::fprintf(stderr,
                   "cuda emulation: the host has waited %d times for streams, %d for events, and "
                   "queued %llu operations\n",
                   counts_[0], counts_[1],
                   static_cast<unsigned long long>(Streams::instance().queued()));
  }
  void count(Of kind) { ++counts_[static_cast<std::size_t>(kind)]; }
  /// The host asks whether operation `sequence` of `stream` is done. A host that asks for the same
  /// `object` again waits for it.
  cudaError_t ask(Of kind, const void* object, Stream& stream, std::uint64_t sequence) {
    Streams& streams = Streams::instance();
    if (!stream.done(sequence)) {
      if (asked_ != object) count(kind);
      asked_ == object ? streams.nudge(stream) : streams.poke();
    }
    const bool done = stream.done(sequence);
    asked_ = done ? nullptr : object;
    return done ? cudaSuccess : cudaErrorNotReady;
  }

 private:
  int counts_[2] = {0, 0};
  const void* asked_ = nullptr;
};

}  // namespace trireme::emulation
