// SelfCommunicator: a group of one rank. Every operation is a copy or nothing, and done when
// started.
#pragma once

#include <memory>
#include <string>

#include "trireme/comm/communicator.h"
#include "trireme/comm/mesh.h"

#include "runtime/observe/status_page.h"

namespace trireme::comm {

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(std::string name) : name_(std::move(name)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view name() const override { return name_; }
  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override;
  Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                              Parts parts) override;
  Ticket start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) override;
  Ticket start_broadcast(Elements x, int root, Stream& stream) override;
  Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                        Stream& stream) override;
  void progress() override {}
  bool done(Ticket) override { return true; }
  void wait(Ticket, Stream&) override {}
  void barrier() override {}

 private:
  std::string name_;
};

/// A mesh of one rank whose status page others ask for. `page` is borrowed.
std::unique_ptr<Mesh> make_self_mesh(observe::StatusPage& page);

}  // namespace trireme::comm
