// ShownGroup: the operations of one group in the status page of a rank.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/communicator.h"

#include "runtime/comm/node/node_state.h"
#include "runtime/observe/status_page.h"

namespace trireme::comm {

class ShownGroup {
 public:
  /// `world_ranks`: of the members; `rank`: of this one in the group. `page` is borrowed.
  ShownGroup(observe::StatusPage& page, std::string name, std::vector<int> world_ranks, int rank);
  ~ShownGroup();
  ShownGroup(const ShownGroup&) = delete;
  ShownGroup& operator=(const ShownGroup&) = delete;

  observe::StatusPage& page() const { return page_; }
  observe::Operation begin(const CollectiveCall& call);
  /// A message is an operation of a channel, in which the n-th send meets the n-th receive. Empty
  /// where the group has more peers than the page shows.
  observe::Operation begin(const Message& message, bool is_send);

 private:
  /// The two channels of the messages with one peer.
  struct PeerChannels {
    int peer = -1;
    observe::GroupId to, from;
  };
  PeerChannels channels_with(int peer);
  int world_rank(int rank) const { return world_ranks_[static_cast<std::size_t>(rank)]; }

  observe::StatusPage& page_;
  const std::string name_;
  const std::vector<int> world_ranks_;
  const int rank_;
  const observe::GroupId group_;
  std::vector<PeerChannels> channels_;
};

}  // namespace trireme::comm
