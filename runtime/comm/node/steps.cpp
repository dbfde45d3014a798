// Continues Group (comm/node/group.h). The building blocks of a group's collectives: publishing and
// reading the progress of members, finding their buffers, messages.
#include <algorithm>

#include "runtime/comm/node/group.h"
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

std::string describe(const Post& post) {
  std::string what = name(post.collective);
  const std::string amount = str(" of ", post.count, " ", post.dtype);
  switch (post.collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return str(what, " ", name(post.reduction), amount);
    case Collective::all_gather:
      return what + amount;
    case Collective::broadcast:
      return str(what, amount, " from rank ", post.root);
    case Collective::barrier:
      return what;
  }
  return what;
}

bool same_operation(const Post& a, const Post& b) {
  return a.collective == b.collective && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.root == b.root && a.count == b.count;
}

Index bounce_bytes(int group_size) {
  return std::max<Index>(Index{256} << 10, Index{group_size} * 2048);
}

void* Group::frame(std::size_t bytes) {
  require(bytes <= frame_.size(), "a collective needs ", bytes, " bytes of frame, not ",
          frame_.size());
  return frame_.data();
}

bool Group::all_posted() const {
  for (const MemberControl* member : parts_.control.members)
    if (member->posted.load(std::memory_order_acquire) < running_) return false;
  return true;
}

bool Group::all_arrived(Index step) {
  if (all_arrived_ >= step) return true;
  Index least = arrived_;
  for (const MemberControl* member : parts_.control.members)
    least = std::min(least, member->arrived.load(std::memory_order_acquire));
  all_arrived_ = least;
  return least >= step;
}

/// Notifies the members of the node that this one has completed its next step. Steps are counted
/// over all operations, and every member takes the same ones.
void Group::arrive() { mine_.arrived.store(++arrived_, std::memory_order_release); }

/// All have posted: checks that they mean the same operation, and decides how it is done.
void Group::open(const Operation& op) {
  staged_ = false;
  const Post& first = post_of(0);
  for (int local = 0; local < parts_.topology.locals(); ++local) {
    const Post& post = post_of(local);
    if (!same_operation(post, first)) {
      const std::vector<int>& here = parts_.topology.here();
      throw Error(str(name(), " group: operation ", running_, " is ", describe(first), " on ",
                      who(here[0]), " but ", describe(post), " on ",
                      who(here[static_cast<std::size_t>(local)])));
    }
    staged_ |= post.in.segment == Place::nowhere || post.out.segment == Place::nowhere;
  }
  staged_ &= parts_.topology.locals() > 1;
  headers_.clear();
  announce_ = parts_.topology.nodes() > 1;
  header_ = {rank(), running_, op.post};
}

/// Elements (of each of `parts`) that go in one round. The same on all nodes.
Index Group::chunk_count(const Operation& op, int parts) const {
  if (parts_.topology.nodes() == 1 && !staged_) return op.post.count;
  return bounce_bytes(size()) / (parts * size_bytes(op.post.dtype));
}

const Post& Group::post_of(int local) const {
  const MemberControl& member = *parts_.control.members[static_cast<std::size_t>(local)];
  return member.posts[static_cast<std::size_t>(running_ % MemberControl::ring)];
}

std::byte* Group::locate(int local, Place place) const {
  const int peer = parts_.topology.here()[static_cast<std::size_t>(local)];
  return parts_.reach->locate(parts_.world_ranks[static_cast<std::size_t>(peer)], place);
}

std::byte* Group::input_of(const Operation& op, int local) const {
  return local == parts_.topology.local() ? op.in : locate(local, post_of(local).in);
}

std::byte* Group::output_of(const Operation& op, int local) const {
  return local == parts_.topology.local() ? op.out : locate(local, post_of(local).out);
}

std::byte* Group::bounce_of(int local) const {
  return parts_.control.bounces[static_cast<std::size_t>(local)];
}

void Group::send(int peer, const std::byte* data, Index bytes) {
  if (announce_) batch_->send(peer, &header_, sizeof(Header));
  if (bytes > 0) batch_->send(peer, data, bytes);
}

void Group::receive(int peer, std::byte* data, Index bytes) {
  if (announce_) {
    headers_.push_back({peer, 0, {}});  // within what was reserved: stays where it is
    batch_->receive(peer, &headers_.back(), sizeof(Header));
  }
  if (bytes > 0) batch_->receive(peer, data, bytes);
}

/// The ranks that have sent messages so far meant this operation.
void Group::check_headers() const {
  for (const Header& header : headers_) {
    if (header.sequence == 0) continue;  // not there yet
    if (header.sequence == running_ && same_operation(header.post, header_.post)) continue;
    throw Error(str(name(), " group: operation ", running_, " is ", describe(header_.post), " on ",
                    who(rank()), " but operation ", header.sequence, ", ", describe(header.post),
                    ", on ", who(header.peer)));
  }
}

/// True when all messages have passed, and the ranks that sent them meant this operation.
bool Group::all_passed() {
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
