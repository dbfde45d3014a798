// Decorators of communicators and meshes that pass every call on. Tests derive from them and
// replace the calls that they are about.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "trireme/comm/mesh.h"

namespace trireme::test {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& real) : real_(real) {}
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> real)
      : owned_(std::move(real)), real_(*owned_) {}

  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  std::string_view name() const override { return real_.name(); }
  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override {
    return real_.start_all_reduce(x, reduction, stream);
  }
  Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                              Parts parts) override {
    return real_.start_reduce_scatter(in, out, reduction, stream, parts);
  }
  Ticket start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) override {
    return real_.start_all_gather(in, out, stream, parts);
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

 protected:
  Communicator& real() { return real_; }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& real_;
};

class ForwardingMesh : public Mesh {
 public:
  explicit ForwardingMesh(Mesh& real) : real_(real) {}

  const MeshShape& shape() const override { return real_.shape(); }
  int rank() const override { return real_.rank(); }
  Communicator& axis(Axis axis) override { return real_.axis(axis); }
  Communicator& world() override { return real_.world(); }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    return real_.split(color, name);
  }
  Buffer allocate(Index bytes) override { return real_.allocate(bytes); }
  std::string memory_description() const override { return real_.memory_description(); }
  [[noreturn]] void abort(int code) override {
    real_.abort(code);
    std::abort();  // gcc does not see that a virtual function does not return
  }

 private:
  Mesh& real_;
};

}  // namespace trireme::test
