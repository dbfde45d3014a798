// Continues HostCommunicator (comm/node/host_communicator.h). The building blocks of its
// collectives: publishing and reading the progress of members, finding their buffers, messages.
#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/comm/node/host_communicator.h"
#include "runtime/comm/node/reduce.h"

namespace trireme::comm {

const char* name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::barrier:
      return "barrier";
  }
  return "?";
}

std::uint64_t cut_of(Parts parts) {
  if (parts.counts.empty()) return 0;
  return std::max<std::uint64_t>(1, XXH3_64bits(parts.counts.data(), parts.counts.size_bytes()));
}

std::string describe(const CollectiveCall& call) {
  std::string what = name(call.collective);
  std::string amount = str(" of ", call.count, " ", call.dtype);
  if (call.cut != 0) amount += str(" in unequal parts (hash ", call.cut, ")");
  switch (call.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return str(what, " ", name(call.reduction), amount);
    case Collective::all_gather:
      return what + amount;
    case Collective::broadcast:
      return str(what, amount, " from rank ", call.root);
    case Collective::barrier:
      return what;
  }
  return what;
}

bool same_operation(const CollectiveCall& a, const CollectiveCall& b) {
  return a.collective == b.collective && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.root == b.root && a.count == b.count && a.cut == b.cut;
}

Index bounce_bytes(int group_size) {
  return std::max<Index>(Index{256} << 10, Index{group_size} * 2048);
}

void* HostCommunicator::frame(std::size_t bytes) {
  require(bytes <= frame_.size(), "a collective needs ", bytes, " bytes of frame, not ",
          frame_.size());
  return frame_.data();
}

bool HostCommunicator::all_posted() const {
  for (const MemberState* member : parts_.node.members)
    if (member->posted.load(std::memory_order_acquire) < running_) return false;
  return true;
}

bool HostCommunicator::all_arrived(Index step) {
  if (all_arrived_ >= step) return true;
  Index least = arrived_;
  for (const MemberState* member : parts_.node.members)
    least = std::min(least, member->arrived.load(std::memory_order_acquire));
  all_arrived_ = least;
  return least >= step;
}

/// Notifies the members of the node that this one has completed its next step. Steps are counted
/// over all operations, and every member takes the same ones.
void HostCommunicator::arrive() { mine_.arrived.store(++arrived_, std::memory_order_release); }

/// All have posted: checks that they mean the same operation, and decides how it is done.
void HostCommunicator::open(const Operation& op) {
  staged_ = false;
  const CollectiveCall& first = call_of(0);
  for (int local = 0; local < parts_.topology.locals(); ++local) {
    const CollectiveCall& call = call_of(local);
    if (!same_operation(call, first)) {
      const std::vector<int>& here = parts_.topology.here();
      throw Error(str(name(), " group: operation ", running_, " is ", describe(first), " on ",
                      who(here[0]), " but ", describe(call), " on ",
                      who(here[static_cast<std::size_t>(local)])));
    }
    staged_ |= call.in.segment == PeerAddress::out_of_reach ||
               call.out.segment == PeerAddress::out_of_reach;
  }
  staged_ &= parts_.topology.locals() > 1;
  headers_.clear();
  announce_ = parts_.topology.nodes() > 1;
  header_ = {rank(), running_, op.call};
}

/// Elements (of each of `parts`) that go in one round. The same on all nodes.
Index HostCommunicator::chunk_count(const Operation& op, int parts) const {
  if (parts_.topology.nodes() == 1 && !staged_) return op.call.count;
  return bounce_bytes(size()) / (parts * size_bytes(op.call.dtype));
}

const CollectiveCall& HostCommunicator::call_of(int local) const {
  const MemberState& member = *parts_.node.members[static_cast<std::size_t>(local)];
  return member.calls[static_cast<std::size_t>(running_ % MemberState::ring)];
}

std::byte* HostCommunicator::locate(int local, PeerAddress address) const {
  const int peer = parts_.topology.here()[static_cast<std::size_t>(local)];
  return parts_.peer_memory->locate(parts_.world_ranks[static_cast<std::size_t>(peer)], address);
}

std::byte* HostCommunicator::input_of(const Operation& op, int local) const {
  return local == parts_.topology.local() ? op.in : locate(local, call_of(local).in);
}

std::byte* HostCommunicator::output_of(const Operation& op, int local) const {
  return local == parts_.topology.local() ? op.out : locate(local, call_of(local).out);
}

std::byte* HostCommunicator::bounce_of(int local) const {
  return parts_.node.bounces[static_cast<std::size_t>(local)];
}

void HostCommunicator::send(int peer, const std::byte* data, Index bytes) {
  if (announce_) batch_->send(peer, &header_, sizeof(Header));
  if (bytes > 0) batch_->send(peer, data, bytes);
}

void HostCommunicator::receive(int peer, std::byte* data, Index bytes) {
  if (announce_) {
    headers_.push_back({peer, 0, {}});  // within what was reserved: stays where it is
    batch_->receive(peer, &headers_.back(), sizeof(Header));
  }
  if (bytes > 0) batch_->receive(peer, data, bytes);
}

/// The ranks that have sent messages so far meant this operation.
void HostCommunicator::check_headers() const {
  for (const Header& header : headers_) {
    if (header.sequence == 0) continue;  // not there yet
    if (header.sequence == running_ && same_operation(header.call, header_.call)) continue;
    throw Error(str(name(), " group: operation ", running_, " is ", describe(header_.call), " on ",
                    who(rank()), " but operation ", header.sequence, ", ", describe(header.call),
                    ", on ", who(header.peer)));
  }
}

/// True when all messages have passed, and the ranks that sent them meant this operation.
bool HostCommunicator::all_passed() {
  try {
    if (!batch_->poll()) return false;
  } catch (const Error&) {
    // A message of another size than expected. Its header, which is there by now, gives a better
    // reason.
    try {
      batch_->poll();
    } catch (const Error&) {
    }
    check_headers();
    throw;
  }
  check_headers();
  headers_.clear();
  announce_ = false;
  return true;
}

}  // namespace trireme::comm
