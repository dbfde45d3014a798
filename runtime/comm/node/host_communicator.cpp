// The operations of a group: starting, polling and waiting.
#include "runtime/comm/node/host_communicator.h"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/comm/arguments.h"
#include "runtime/comm/node/reduce.h"

namespace trireme::comm {
namespace {

Ticket collective_ticket(Index sequence) { return {static_cast<std::uint64_t>(2 * sequence)}; }
Ticket exchange_ticket(Index sequence) { return {static_cast<std::uint64_t>(2 * sequence + 1)}; }
bool is_exchange(Ticket ticket) { return ticket.sequence % 2 == 1; }
Index sequence_of(Ticket ticket) { return static_cast<Index>(ticket.sequence / 2); }

}  // namespace

HostCommunicator::HostCommunicator(HostCommunicatorParts parts)
    : parts_(std::move(parts)),
      mine_(*parts_.node.members[static_cast<std::size_t>(parts_.topology.local())]),
      batch_(parts_.messages->make_batch(Channel::collective)),
      shown_(parts_.progress->page(), parts_.name, parts_.world_ranks, parts_.topology.rank) {
  const std::size_t ranks = static_cast<std::size_t>(size());
  borders_.resize(ranks + 1);
  headers_.reserve(ranks);
  sources_.reserve(ranks);
  targets_.reserve(ranks);
  if (parts_.topology.nodes() > 1)
    scratch_.resize(static_cast<std::size_t>(4 * bounce_bytes(size()) + 64 * size()));
  constexpr std::size_t usual_messages = 8;  // of one exchange, at most: more grow the list
  for (Exchange& exchange : exchanges_) {
    exchange.batch = parts_.messages->make_batch(Channel::exchange);
    if (page().on()) exchange.shown.reserve(usual_messages);
  }
  parts_.progress->add(this);
}

HostCommunicator::~HostCommunicator() {
  parts_.progress->remove(this);
  // After a failure, operations in flight must not write to freed memory.
  if (running_ <= started_) fail("it has ended with operations under way");
  batch_.reset();
  for (Exchange& exchange : exchanges_) exchange.batch.reset();
}

Ticket HostCommunicator::start_all_reduce(Elements x, Reduction reduction, Stream&) {
  return start(Collective::all_reduce, reduction, 0, x, x);
}

Ticket HostCommunicator::start_reduce_scatter(Elements in, Elements out, Reduction reduction,
                                              Stream&, Parts parts) {
  const Parts checked = arguments::check_reduce_scatter(*this, in, out, parts);
  return start(Collective::reduce_scatter, reduction, 0, in, out, checked);
}

Ticket HostCommunicator::start_all_gather(Elements in, Elements out, Stream&, Parts parts) {
  const Parts checked = arguments::check_all_gather(*this, in, out, parts);
  return start(Collective::all_gather, Reduction::sum, 0, in, out, checked);
}

Ticket HostCommunicator::start_broadcast(Elements x, int root, Stream&) {
  arguments::check_root(*this, root);
  return start(Collective::broadcast, Reduction::sum, root, x, x);
}

void HostCommunicator::barrier() {
  const Elements none{nullptr, 0, DType::u8};
  wait_collective(sequence_of(start(Collective::barrier, Reduction::sum, 0, none, none)));
}

Ticket HostCommunicator::start(Collective collective, Reduction reduction, int root, Elements in,
                               Elements out, Parts parts) {
  if (collective == Collective::all_reduce || collective == Collective::reduce_scatter)
    arguments::check_reduction(*this, collective, in.dtype, reduction);
  require(in.count >= 0 && out.count >= 0, name(), " group: ", comm::name(collective), " of ",
          in.count, " elements");
  const Index sequence = started_ + 1;
  wait_collective(sequence - MemberState::ring);  // whose place in the ring this one takes
  Operation& op = operations_[static_cast<std::size_t>(sequence % MemberState::ring)];
  op.in = static_cast<std::byte*>(in.data);
  op.out = static_cast<std::byte*>(out.data);
  op.parts = parts;
  op.call = {collective,
             in.dtype,
             reduction,
             root,
             parts.counts.empty() ? std::min(in.count, out.count) : std::max(in.count, out.count),
             parts_.peer_memory->find(in.data, in.count * size_bytes(in.dtype)),
             parts_.peer_memory->find(out.data, out.count * size_bytes(out.dtype)),
             cut_of(parts)};
  mine_.calls[static_cast<std::size_t>(sequence % MemberState::ring)] = op.call;
  op.shown = shown_.begin(op.call);
  mine_.posted.store(sequence, std::memory_order_release);
  started_ = sequence;
  progress();
  return collective_ticket(sequence);
}

Ticket HostCommunicator::start_exchange(std::span<const Message> sends,
                                        std::span<const Message> receives, Stream&) {
  const Index sequence = exchanges_started_ + 1;
  wait_exchange(sequence - exchanges_in_flight);
  Exchange& exchange = exchanges_[static_cast<std::size_t>(sequence % exchanges_in_flight)];
  for (auto messages : {receives, sends}) arguments::check_messages(*this, messages);
  if (page().on()) {
    for (const Message& message : receives) exchange.shown.push_back(shown_.begin(message, false));
    for (const Message& message : sends) exchange.shown.push_back(shown_.begin(message, true));
  }
  for (const Message& message : receives) {
    // Makes it visible when the buffer is read before wait().
    if (parts_.progress->hostile() && message.bytes > 0)
      std::memset(message.data, 0xff, static_cast<std::size_t>(message.bytes));
    exchange.batch->receive(message.peer, message.data, message.bytes);
  }
  for (const Message& message : sends)
    exchange.batch->send(message.peer, message.data, message.bytes);
  exchange.sequence = sequence;
  exchange.pending = true;
  ++exchanges_pending_;
  exchanges_started_ = sequence;
  progress();
  return exchange_ticket(sequence);
}

bool HostCommunicator::poll() {
  require(failure_.empty(), failure_);
  if (exchanges_pending_ == 0 && running_ > started_ && finished(started_)) return false;
  if (delay_ > 0) return --delay_, false;
  if (parts_.progress->dice(4) == 1) delay_ = parts_.progress->dice(40);
  bool moved = false;
  for (Exchange& exchange : exchanges_) {
    if (exchanges_pending_ == 0) break;
    if (!exchange.pending || parts_.progress->dice(3) == 1 || !exchange.batch->poll()) continue;
    exchange.pending = false;
    for (const observe::Operation& operation : exchange.shown) page().end(operation);
    exchange.shown.clear();
    --exchanges_pending_;
    moved = true;
  }
  return poll_collectives() || moved;
}

bool HostCommunicator::poll_collectives() {
  // Published before checking for failed ranks; fail() does the opposite. So either this rank sees
  // that another one has failed, or that one sees this rank at work and waits.
  mine_.working.store(1);
  check_members();
  bool moved = false;
  while (running_ <= started_) {
    Operation& op = operations_[static_cast<std::size_t>(running_ % MemberState::ring)];
    if (!task_) task_ = run(op);
    if (!task_.run()) break;
    task_ = CollectiveTask();
    arrive();
    op.done_at = arrived_;
    page().end(op.shown);
    ++running_;
    moved = true;
  }
  mine_.working.store(0, std::memory_order_release);
  return moved;
}

void HostCommunicator::check_members() const {
  for (int local = 0; local < parts_.topology.locals(); ++local) {
    const MemberState& member = *parts_.node.members[static_cast<std::size_t>(local)];
    if (member.failed.load())
      throw PeerError(str(who(parts_.topology.here()[static_cast<std::size_t>(local)]),
                          " has given up: ", member.failure));
  }
}

void HostCommunicator::fail(const std::string& why) {
  if (!failure_.empty()) return;
  failure_ = why;
  why.copy(mine_.failure, sizeof(mine_.failure) - 1);
  mine_.failed.store(true);
  mine_.working.store(0);
  batch_.reset();  // messages on their way find no buffer
  for (Exchange& exchange : exchanges_) exchange.batch.reset();
  for (const MemberState* member : parts_.node.members)
    for (int tries = 0; member->working.load() != 0 && tries < 10000; ++tries)
      ::usleep(100);  // it may be dead
}

bool HostCommunicator::finished(Index sequence) {
  if (sequence <= started_ - MemberState::ring) return true;
  const Operation& op = operations_[static_cast<std::size_t>(sequence % MemberState::ring)];
  return sequence < running_ && all_arrived(op.done_at);
}

bool HostCommunicator::exchanged(Index sequence) const {
  if (sequence <= 0) return true;
  const Exchange& exchange = exchanges_[static_cast<std::size_t>(sequence % exchanges_in_flight)];
  return exchange.sequence != sequence || !exchange.pending;
}

bool HostCommunicator::done(Ticket ticket) {
  const Index sequence = sequence_of(ticket);
  const auto is_done = [&] {
    return is_exchange(ticket) ? exchanged(sequence) : finished(sequence);
  };
  if (is_done()) return true;
  parts_.progress->poll();
  return is_done();
}

void HostCommunicator::wait(Ticket ticket, Stream&) {
  is_exchange(ticket) ? wait_exchange(sequence_of(ticket)) : wait_collective(sequence_of(ticket));
}

void HostCommunicator::wait_collective(Index sequence) {
  if (sequence <= 0 || finished(sequence)) return;
  const Operation& op = operations_[static_cast<std::size_t>(sequence % MemberState::ring)];
  page().wait_for({&op.shown, 1});
  parts_.progress->wait_until([&] { return finished(sequence); },
                              [&] { return waiting_for(sequence); },
                              [&] { return first_missing(sequence); });
  page().stop_waiting();
}

void HostCommunicator::wait_exchange(Index sequence) {
  if (exchanged(sequence)) return;
  page().wait_for(exchanges_[static_cast<std::size_t>(sequence % exchanges_in_flight)].shown);
  parts_.progress->wait_until(
      [&] { return exchanged(sequence); },
      [&] {
        const Exchange& exchange =
            exchanges_[static_cast<std::size_t>(sequence % exchanges_in_flight)];
        return str(name(), " group: exchange ", sequence, " of ", who(rank()),
                   " waits for a message with ", who(exchange.batch->waits_for()));
      },
      [&] {
        const Exchange& exchange =
            exchanges_[static_cast<std::size_t>(sequence % exchanges_in_flight)];
        return world_rank(exchange.batch->waits_for());
      });
  page().stop_waiting();
}

/// Calls f with each rank that operation `sequence` still needs, as far as this rank can see.
template <class F>
void HostCommunicator::for_each_missing(Index sequence, F f) const {
  const Operation& op = operations_[static_cast<std::size_t>(sequence % MemberState::ring)];
  bool any = false;
  for (int local = 0; local < parts_.topology.locals(); ++local) {
    const MemberState& member = *parts_.node.members[static_cast<std::size_t>(local)];
    const bool late = sequence < running_
                          ? member.arrived.load(std::memory_order_relaxed) < op.done_at
                          : member.posted.load(std::memory_order_relaxed) < sequence;
    if (late) f(parts_.topology.here()[static_cast<std::size_t>(local)]);
    any |= late;
  }
  if (!any && batch_->waits_for() >= 0) f(batch_->waits_for());
}

int HostCommunicator::first_missing(Index sequence) const {
  int first = -1;
  for_each_missing(sequence, [&](int rank_) {
    if (first < 0) first = world_rank(rank_);
  });
  return first;
}

std::string HostCommunicator::waiting_for(Index sequence) const {
  const Operation& op = operations_[static_cast<std::size_t>(sequence % MemberState::ring)];
  std::string missing;
  for_each_missing(sequence,
                   [&](int rank_) { missing += (missing.empty() ? "" : ", ") + who(rank_); });
  return str(name(), " group: ", describe(op.call), " (operation ", sequence, " of ", who(rank()),
             ") waits for ", missing.empty() ? "others on this node" : missing);
}

std::string HostCommunicator::who(int rank_) const {
  return str("rank ", rank_, " (world rank ", world_rank(rank_), ")");
}

int HostCommunicator::world_rank(int rank_) const {
  return rank_ < 0 ? -1 : parts_.world_ranks[static_cast<std::size_t>(rank_)];
}

// The building blocks of its collectives: publishing and reading the progress of members, finding
// their buffers, messages.

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
