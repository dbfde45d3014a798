// FlippingMesh: a mesh whose rank's memory a test can reach, to flip bits of parameters between two
// steps, or in what a gather over the data axis brings: silent corruption, planted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "tests/support/forwarding_mesh.h"

namespace trireme::test {

/// What a test does at the n-th (from 0) of the operations of a group.
struct FlipHooks {
  std::function<void(Elements out, Index n)> after_gather = {};  // may change what it has brought
  std::function<void(Index n)> before_sum = {};                  // of fp32: of gradients
  std::function<void(Elements sum)> after_sum = {};              // the same; may change it
};

class FlippingCommunicator final : public ForwardingCommunicator {
 public:
  FlippingCommunicator(Communicator& real, FlipHooks hooks)
      : ForwardingCommunicator(real), hooks_(std::move(hooks)) {}

  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override {
    if (hooks_.before_sum && x.dtype == DType::f32) hooks_.before_sum(sums_++);
    if (!hooks_.after_sum || x.dtype != DType::f32)
      return real().start_all_reduce(x, reduction, stream);
    real().all_reduce(x, reduction, stream);
    hooks_.after_sum(x);
    return {};
  }
  Ticket start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) override {
    if (!hooks_.after_gather) return real().start_all_gather(in, out, stream, parts);
    real().all_gather(in, out, stream, parts);
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
    if (first_.empty()) first_ = {buffer.data(), static_cast<std::size_t>(bytes)};
    return buffer;
  }

  /// A bit of byte `offset` of the first memory that was allocated, which begins with the masters.
  void flip(Index offset, int bit) {
    first_[static_cast<std::size_t>(offset)] ^= std::byte{1} << bit;
  }
  float* parameters() { return reinterpret_cast<float*>(first_.data()); }
  /// Where these bytes are in that memory; -1: nowhere.
  Index find(std::span<const std::byte> bytes) const {
    const auto at = std::search(first_.begin(), first_.end(), bytes.begin(), bytes.end());
    return at == first_.end() ? -1 : at - first_.begin();
  }

 private:
  FlippingCommunicator data_;
  std::span<std::byte> first_;
};

}  // namespace trireme::test
