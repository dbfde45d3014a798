#include "runtime/comm/node/shown_group.h"

#include <algorithm>
#include <utility>

namespace trireme::comm {
namespace {

using observe::OperationKind;

constexpr std::size_t most_channels = 8;  // of a group, by peers

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

ShownGroup::ShownGroup(observe::StatusPage& page, std::string name, std::vector<int> world_ranks,
                       int rank)
    : page_(page),
      name_(std::move(name)),
      world_ranks_(std::move(world_ranks)),
      rank_(rank),
      group_(page_.add_group(name_, world_ranks_)) {
  if (page_.on()) channels_.reserve(most_channels);
}

ShownGroup::~ShownGroup() {
  page_.retire(group_);
  for (const PeerChannels& with : channels_) {
    page_.retire(with.to);
    page_.retire(with.from);
  }
}

observe::Operation ShownGroup::begin(const CollectiveCall& call) {
  if (!page_.on()) return {};
  const int root = call.collective == Collective::broadcast ? world_rank(call.root) : -1;
  return page_.begin(group_, {shown_kind(call.collective), call.dtype, call.count, root});
}

observe::Operation ShownGroup::begin(const Message& message, bool is_send) {
  if (!page_.on()) return {};
  const PeerChannels channels = channels_with(message.peer);
  return page_.begin(is_send ? channels.to : channels.from,
                     {is_send ? OperationKind::send : OperationKind::receive, DType::u8,
                      message.bytes, world_rank(message.peer)});
}

/// Made at the first message. Of a group in which one rank receives from very many, only some are
/// shown: the table of the page is small.
ShownGroup::PeerChannels ShownGroup::channels_with(int peer) {
  const auto found = std::find_if(channels_.begin(), channels_.end(),
                                  [&](const PeerChannels& with) { return with.peer == peer; });
  if (found != channels_.end()) return *found;
  if (channels_.size() == most_channels) return {};
  const int mine = world_rank(rank_), theirs = world_rank(peer);
  return channels_.emplace_back(PeerChannels{peer, page_.add_channel(name_, mine, theirs),
                                             page_.add_channel(name_, theirs, mine)});
}

}  // namespace trireme::comm
