// FlippingMesh: a mesh whose rank's memory a test can reach, to flip bits of parameters between two
// steps, or in what a gather over the data axis brings: silent corruption, planted.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "tests/support/forwarding_mesh.h"

namespace trireme::test {

/// What a test does at the n-th (from 0) of the operations of a group.
struct FlipHooks {
  std::function<void(Elements out, Index n)> after_gather = {};  // may change what it has brought
  std::function<void(Index n)> before_sum = {};                  // of fp32: of gradients
};

class FlippingCommunicator final : public ForwardingCommunicator {
 public:
  FlippingCommunicator(Communicator& real, FlipHooks hooks)
      : ForwardingCommunicator(real), hooks_(std::move(hooks)) {}

  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override {
    if (hooks_.before_sum && x.dtype == DType::f32) hooks_.before_sum(sums_++);
    return real().start_all_reduce(x, reduction, stream);
  }
  Ticket start_all_gather(Elements in, Elements out, Stream& stream) override {
    if (!hooks_.after_gather) return real().start_all_gather(in, out, stream);
    real().all_gather(in, out, stream);
    hooks_.after_gather(out, gathers_++);
    return {};
  }

 private:
  FlipHooks hooks_;
  Index gathers_ = 0, sums_ = 0;
};

class FlippingMesh final : public ForwardingMesh {
 public:
  explicit FlippingMesh(Mesh& real, FlipHooks on_data = {})
      : ForwardingMesh(real), data_(real.axis(Axis::data), std::move(on_data)) {}

  Communicator& axis(Axis axis) override {
    return axis == Axis::data ? data_ : ForwardingMesh::axis(axis);
  }
  Buffer allocate(Index bytes) override {
    Buffer buffer = ForwardingMesh::allocate(bytes);
    if (first_ == nullptr) first_ = buffer.data();
    return buffer;
  }

  /// A bit of byte `offset` of the first memory that was allocated, which begins with the masters.
  void flip(Index offset, int bit) { first_[offset] ^= std::byte{1} << bit; }
  float* parameters() { return reinterpret_cast<float*>(first_); }

 private:
  FlippingCommunicator data_;
  std::byte* first_ = nullptr;
};

}  // namespace trireme::test
