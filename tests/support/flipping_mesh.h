// FlippingMesh: a mesh whose rank's memory a test can reach, to flip bits of parameters between two
// steps, or in what a gather over the data axis brings: silent corruption, planted.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "trireme/comm/mesh.h"

namespace trireme::test {

/// What a test does at the n-th (from 0) of the operations of a group.
struct FlipHooks {
  std::function<void(Elements out, Index n)> after_gather = {};  // may change what it has brought
  std::function<void(Index n)> before_sum = {};                  // of fp32: of gradients
};

/// Passes all on.
class FlippingCommunicator final : public Communicator {
 public:
  FlippingCommunicator(Communicator& real, FlipHooks hooks)
      : real_(real), hooks_(std::move(hooks)) {}

  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  std::string_view name() const override { return real_.name(); }
  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override {
    if (hooks_.before_sum && x.dtype == DType::f32) hooks_.before_sum(sums_++);
    return real_.start_all_reduce(x, reduction, stream);
  }
  Ticket start_reduce_scatter(Elements in, Elements out, Reduction r, Stream& stream) override {
    return real_.start_reduce_scatter(in, out, r, stream);
  }
  Ticket start_all_gather(Elements in, Elements out, Stream& stream) override {
    if (!hooks_.after_gather) return real_.start_all_gather(in, out, stream);
    real_.all_gather(in, out, stream);
    hooks_.after_gather(out, gathers_++);
    return {};
  }
  Ticket start_broadcast(Elements x, int root, Stream& stream) override {
    return real_.start_broadcast(x, root, stream);
  }
  Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                        Stream& stream) override {
    return real_.start_exchange(sends, receives, stream);
  }
  void progress() override { real_.progress(); }
  bool done(Ticket ticket) override { return real_.done(ticket); }
  void wait(Ticket ticket, Stream& stream) override { real_.wait(ticket, stream); }
  void barrier() override { real_.barrier(); }

 private:
  Communicator& real_;
  FlipHooks hooks_;
  Index gathers_ = 0, sums_ = 0;
};

class FlippingMesh final : public Mesh {
 public:
  explicit FlippingMesh(Mesh& real, FlipHooks on_data = {})
      : real_(real), data_(real.axis(Axis::data), std::move(on_data)) {}

  const MeshShape& shape() const override { return real_.shape(); }
  int rank() const override { return real_.rank(); }
  Communicator& axis(Axis axis) override { return axis == Axis::data ? data_ : real_.axis(axis); }
  Communicator& world() override { return real_.world(); }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    return real_.split(color, name);
  }
  Buffer allocate(Index bytes) override {
    Buffer buffer = real_.allocate(bytes);
    if (first_ == nullptr) first_ = buffer.data();
    return buffer;
  }
  std::string memory_description() const override { return real_.memory_description(); }
  [[noreturn]] void abort(int code) override {
    real_.abort(code);
    std::abort();  // gcc does not see that a virtual function does not return
  }

  /// A bit of byte `offset` of the first memory that was allocated, which begins with the masters.
  void flip(Index offset, int bit) { first_[offset] ^= std::byte{1} << bit; }

 private:
  Mesh& real_;
  FlippingCommunicator data_;
  std::byte* first_ = nullptr;
};

}  // namespace trireme::test
