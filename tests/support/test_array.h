// Arrays for checks of collectives, on the host or on a GPU: the host writes and reads elements,
// upload() and download() bring them to the device and back. On a CPU both are the same memory.
#pragma once

#include <optional>
#include <vector>

#include "trireme/comm/mesh.h"

#include "tests/support/host_stream.h"

namespace trireme {

/// Memory for a test: ordinary, or what Mesh::allocate gives.
enum class Memory { ordinary, allocated };

/// That, and the stream of a GPU when it is a GPU's.
struct TestMemory {
  TestMemory(Memory kind_) : kind(kind_) {}  // NOLINT: every check takes a Memory
  explicit TestMemory(Stream& gpu_) : kind(Memory::allocated), gpu(&gpu_) {}
  Memory kind;
  Stream* gpu = nullptr;
};

/// The stream of a check: that of the GPU, or one of the host.
class TestStream {
 public:
  explicit TestStream(TestMemory memory) : gpu_(memory.gpu) {
    if (gpu_ == nullptr) host_.emplace();
  }
  operator Stream&() { return gpu_ != nullptr ? *gpu_ : *host_; }  // NOLINT: it is one

 private:
  Stream* gpu_;
  std::optional<HostStream> host_;
};

template <class T>
class TestArray {
 public:
  TestArray(Mesh& mesh, TestMemory memory, Index count)
      : count_(count),
        gpu_(memory.gpu),
        vector_(memory.kind == Memory::ordinary || memory.gpu != nullptr
                    ? static_cast<std::size_t>(count)
                    : 0),
        buffer_(memory.kind == Memory::allocated ? mesh.allocate(bytes(count)) : Buffer()) {}

  /// Where collectives work.
  T* data() { return buffer_ ? reinterpret_cast<T*>(buffer_.data()) : vector_.data(); }
  Elements elements() { return part(0, count_); }
  Elements part(Index begin, Index count) { return {data() + begin, count, DTypeOf<T>::value}; }

  /// What the host sees.
  T& operator[](Index i) { return (vector_.empty() ? data() : vector_.data())[i]; }
  void upload() { upload(0, count_); }
  void download() { download(0, count_); }
  void upload(Index begin, Index count) {
    if (gpu_ != nullptr && count > 0)
      gpu_->copy(data() + begin, vector_.data() + begin, bytes(count));
  }
  void download(Index begin, Index count) {
    if (gpu_ == nullptr || count == 0) return;
    gpu_->copy(vector_.data() + begin, data() + begin, bytes(count));
    gpu_->synchronize();
  }

 private:
  static Index bytes(Index count) { return count * Index{sizeof(T)}; }

  Index count_;
  Stream* gpu_;
  std::vector<T> vector_;
  Buffer buffer_;  // destroyed first, after all queued work, which may read vector_
};

}  // namespace trireme
