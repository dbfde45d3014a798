// What the status page of a rank says of its operations in a group.
#include <algorithm>

#include "runtime/comm/node/host_communicator.h"

namespace trireme::comm {
namespace {

using observe::OperationKind;

OperationKind shown_kind(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return OperationKind::all_reduce;
    case Collective::reduce_scatter:
      return OperationKind::reduce_scatter;
    case Collective::all_gather:
      return OperationKind::all_gather;
    case Collective::broadcast:
      return OperationKind::broadcast;
    case Collective::barrier:
      break;
  }
  return OperationKind::barrier;
}

}  // namespace

void HostCommunicator::show_start(Operation& op) {
  const CollectiveCall& call = op.call;
  const int root = call.collective == Collective::broadcast ? world_rank(call.root) : -1;
  op.shown =
      page().begin(shown_group_, {shown_kind(call.collective), call.dtype, call.count, root});
}

/// Each message is an operation of a channel, in which the n-th send meets the n-th receive.
void HostCommunicator::show_start(Exchange& exchange, std::span<const Message> messages,
                                  bool sends) {
  if (!page().on()) return;
  for (const Message& message : messages) {
    const PeerChannels channels = channels_with(message.peer);
    exchange.shown.push_back(page().begin(sends ? channels.to : channels.from,
                                          {sends ? OperationKind::send : OperationKind::receive,
                                           DType::u8, message.bytes, world_rank(message.peer)}));
  }
}

void HostCommunicator::show_end(Exchange& exchange) {
  for (const observe::Operation& operation : exchange.shown) page().end(operation);
  exchange.shown.clear();
}

/// Made at the first message. Of a group in which one rank receives from very many, only some are
/// shown: the table of the page is small.
HostCommunicator::PeerChannels HostCommunicator::channels_with(int peer) {
  const auto found = std::find_if(channels_.begin(), channels_.end(),
                                  [&](const PeerChannels& with) { return with.peer == peer; });
  if (found != channels_.end()) return *found;
  if (channels_.size() == most_channels) return {};
  const int mine = world_rank(rank()), theirs = world_rank(peer);
  return channels_.emplace_back(PeerChannels{peer, page().add_channel(name(), mine, theirs),
                                             page().add_channel(name(), theirs, mine)});
}

}  // namespace trireme::comm
