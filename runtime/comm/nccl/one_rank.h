// OneRank: a group of one GPU. Operations are copies on the caller's stream, or nothing; an event
// orders the stream that waits behind the one that started, as it would with more ranks.
#pragma once

#include <array>
#include <memory>

#include "runtime/comm/self.h"

namespace trireme::nccl {

class OneRank final : public Communicator {
 public:
  OneRank(std::string name, Device& gpu);
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view name() const override { return self_.name(); }
  Ticket start_all_reduce(Elements x, Reduction reduction, Stream& stream) override;
  Ticket start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                              Parts parts) override;
  Ticket start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) override;
  Ticket start_broadcast(Elements x, int root, Stream& stream) override;
  Ticket start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                        Stream& stream) override;
  void progress() override {}
  bool done(Ticket ticket) override;
  void wait(Ticket ticket, Stream& stream) override;
  void barrier() override {}

 private:
  static constexpr std::uint64_t ring = 64;
  struct Operation {
    std::unique_ptr<Event> end;
    const Stream* stream = nullptr;
  };
  Ticket end_on(Stream& stream);
  /// The operation of `ticket`, or the one that has replaced it in the ring. Later work on the same
  /// stream ends later.
  const Operation& operation(Ticket ticket) const { return operations_[ticket.sequence % ring]; }

  comm::SelfCommunicator self_;
  std::array<Operation, ring> operations_;
  std::uint64_t started_ = 0;
};

}  // namespace trireme::nccl
