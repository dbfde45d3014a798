#include "runtime/comm/nccl/one_rank.h"

namespace trireme::nccl {

OneRank::OneRank(std::string name, Device& gpu) : self_(std::move(name)) {
  for (Operation& operation : operations_) operation.end = gpu.make_event();
}

Ticket OneRank::end_on(Stream& stream) {
  Operation& operation = operations_[++started_ % ring];
  // A wait for the earlier operation in this slot will wait for the new end, so the new end must
  // come after the old one.
  if (operation.stream != nullptr && operation.stream != &stream) operation.end->make_wait(stream);
  operation.stream = &stream;
  operation.end->record(stream);
  return {started_};
}

Ticket OneRank::start_all_reduce(Elements x, Reduction reduction, Stream& stream) {
  self_.start_all_reduce(x, reduction, stream);
  return end_on(stream);
}

Ticket OneRank::start_reduce_scatter(Elements in, Elements out, Reduction reduction, Stream& stream,
                                     Parts parts) {
  self_.start_reduce_scatter(in, out, reduction, stream, parts);
  return end_on(stream);
}

Ticket OneRank::start_all_gather(Elements in, Elements out, Stream& stream, Parts parts) {
  self_.start_all_gather(in, out, stream, parts);
  return end_on(stream);
}

Ticket OneRank::start_broadcast(Elements x, int root, Stream& stream) {
  self_.start_broadcast(x, root, stream);
  return end_on(stream);
}

Ticket OneRank::start_exchange(std::span<const Message> sends, std::span<const Message> receives,
                               Stream& stream) {
  self_.start_exchange(sends, receives, stream);
  return end_on(stream);
}

bool OneRank::done(Ticket ticket) {
  return ticket.sequence == 0 || operation(ticket).end->reached();
}

void OneRank::wait(Ticket ticket, Stream& stream) {
  if (ticket.sequence == 0 || operation(ticket).stream == &stream) return;
  operation(ticket).end->make_wait(stream);
}

}  // namespace trireme::nccl
