// The operations of a group: starting, polling and waiting; and the collectives.
#include "runtime/comm/node/host_communicator.h"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/comm/arguments.h"
#include "runtime/comm/node/reduce.h"
#include "runtime/core/at.h"
#include "runtime/core/round_up.h"

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

// The collectives, as every member runs them. On one node: each member does its share in the
// buffers of all, which a step (arrive, then wait for all) makes visible. Several nodes: partial
// results go directly to the rank that sums them, in the order of the nodes. Sums therefore have
// one order, whatever the timing. Buffers out of reach of others go through the bounce buffers in
// chunks ("staged").

namespace {

struct Range {
  Index begin, count;
};

/// Part `part` of `count` elements in `parts` nearly equal parts, on borders of cache lines.
Range cut(Index count, int parts, int part, Index element_bytes) {
  const Index line = 64 / element_bytes;
  const Index each = round_up((count + parts - 1) / parts, line);
  const Index begin = std::min(count, each * part), end = std::min(count, begin + each);
  return {begin, end - begin};
}

/// At most `chunk` elements of part `part`, from its element `begin` on.
Range piece_of(const std::vector<Index>& borders, int part, Index begin, Index chunk) {
  const auto p = static_cast<std::size_t>(part);
  const Index end = borders[p + 1], first = std::min(end, borders[p] + begin);
  return {first, std::min(chunk, end - first)};
}

void copy_bytes(std::byte* to, const std::byte* from, Index bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

CollectiveTask HostCommunicator::run(const Operation& op) {
  switch (op.call.collective) {
    case Collective::all_reduce:
      return all_reduce(op);
    case Collective::reduce_scatter:
      return reduce_scatter(op);
    case Collective::all_gather:
      return all_gather(op);
    case Collective::broadcast:
      return broadcast(op);
    case Collective::barrier:
      return barrier(op);
  }
  throw Error("unknown collective");
}

/// Sets the borders of the parts; returns the elements of the largest one.
Index HostCommunicator::place_parts(const Operation& op) {
  const std::span<const Index> counts = op.parts.counts;
  Index largest = 0;
  for (std::size_t part = 0; part + 1 < borders_.size(); ++part) {
    const Index count = counts.empty() ? op.call.count : counts[part];
    borders_[part + 1] = borders_[part] + count;
    largest = std::max(largest, count);
  }
  return largest;
}

/// targets_ = the reduction over the members of this node of their `count` elements at
/// `offset_bytes` of the input.
void HostCommunicator::reduce_over_node(const Operation& op, Index offset_bytes, Index count) {
  sources_.clear();
  for (int local = 0; local < parts_.topology.locals(); ++local)
    sources_.push_back((staged_ ? bounce_of(local) : input_of(op, local)) + offset_bytes);
  reduce(op.call.dtype, op.call.reduction, sources_, targets_, count);
}

/// to = the reduction over the nodes, in their order, of this node's `partial` and of what came
/// from the others.
void HostCommunicator::reduce_over_nodes(const Operation& op, const std::byte* partial,
                                         const std::byte* incoming, Index count, std::byte* to) {
  sources_.clear();
  for (int node = 0; node < parts_.topology.nodes(); ++node) {
    sources_.push_back(node == parts_.topology.node ? partial : incoming);
    if (node != parts_.topology.node) incoming += count * size_bytes(op.call.dtype);
  }
  targets_.assign(1, to);
  reduce(op.call.dtype, op.call.reduction, sources_, targets_, count);
}

/// Between the members of one lane, one on each node: of `count` elements at `partial` everyone
/// gets its own part from all.
void HostCommunicator::scatter_over_nodes(Index count, Index element, std::byte* partial,
                                          std::byte* incoming) {
  const Topology& topology = parts_.topology;
  const Index mine_bytes = cut(count, topology.nodes(), topology.node, element).count * element;
  for (int node = 0; node < topology.nodes(); ++node) {
    if (node == topology.node) continue;
    const Range theirs = cut(count, topology.nodes(), node, element);
    receive(topology.in_lane(node), incoming, mine_bytes);
    send(topology.in_lane(node), partial + theirs.begin * element, theirs.count * element);
    incoming += mine_bytes;
  }
}

/// The inverse: every member gets the parts of all.
void HostCommunicator::gather_over_nodes(Index count, Index element, std::byte* sums) {
  const Topology& topology = parts_.topology;
  const Range mine = cut(count, topology.nodes(), topology.node, element);
  for (int node = 0; node < topology.nodes(); ++node) {
    if (node == topology.node) continue;
    const Range theirs = cut(count, topology.nodes(), node, element);
    receive(topology.in_lane(node), sums + theirs.begin * element, theirs.count * element);
    send(topology.in_lane(node), sums + mine.begin * element, mine.count * element);
  }
}

/// Each of `lanes` members of a node owns a slice of the chunk: sums it over the node, then,
/// together with the members of the same lane on other nodes, over the nodes (each of them a part
/// of it), and stores the sum to all on its node.
CollectiveTask HostCommunicator::all_reduce(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  const Index element = size_bytes(op.call.dtype), chunk = chunk_count(op, 1);
  const int lanes = topology.nodes() == 1 ? topology.locals() : topology.lanes;
  for (Index begin = 0; begin < op.call.count; begin += chunk) {
    const Index count = std::min(chunk, op.call.count - begin);
    if (staged_) {
      copy_bytes(bounce_of(topology.local()), op.in + begin * element, count * element);
      co_await meet();
    }
    const Range slice =
        topology.local() < lanes ? cut(count, lanes, topology.local(), element) : Range{0, 0};
    const Index offset = ((staged_ ? 0 : begin) + slice.begin) * element,
                bytes = slice.count * element;
    if (topology.nodes() > 1 && topology.local() < lanes) {
      std::byte *const partial = scratch_.data(), *const incoming = partial + bytes;
      targets_.assign(1, partial);
      reduce_over_node(op, offset, slice.count);
      scatter_over_nodes(slice.count, element, partial, incoming);
      co_await until([&] { return all_passed(); });
      const Range mine = cut(slice.count, topology.nodes(), topology.node, element);
      std::byte* const sum = partial + mine.begin * element;
      reduce_over_nodes(op, sum, incoming, mine.count, sum);
      gather_over_nodes(slice.count, element, partial);
      co_await until([&] { return all_passed(); });
      for (int local = 0; local < topology.locals(); ++local)
        copy_bytes((staged_ ? bounce_of(local) : output_of(op, local)) + offset, partial, bytes);
    } else if (slice.count > 0) {
      targets_.clear();
      for (int local = 0; local < topology.locals(); ++local)
        targets_.push_back((staged_ ? bounce_of(local) : output_of(op, local)) + offset);
      reduce_over_node(op, offset, slice.count);
    }
    if (staged_) {
      co_await meet();
      copy_bytes(op.out + begin * element, bounce_of(topology.local()), count * element);
    }
  }
}

/// Each member sums its part over the node, and the parts that it handles for ranks of other nodes,
/// which get them. In each round at most `chunk` elements of every part.
CollectiveTask HostCommunicator::reduce_scatter(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  const Index element = size_bytes(op.call.dtype), chunk = chunk_count(op, size());
  const Index largest = place_parts(op);
  for (Index begin = 0; begin < largest; begin += chunk) {
    const auto piece = [&](int part) { return piece_of(borders_, part, begin, chunk); };
    // Where it lies in the input, or in the bounce buffer, in bytes.
    const auto place = [&](int part) {
      return (staged_ ? part * chunk : piece(part).begin) * element;
    };
    if (staged_) {
      for (int part = 0; part < size(); ++part)
        copy_bytes(bounce_of(topology.local()) + place(part), op.in + piece(part).begin * element,
                   piece(part).count * element);
      co_await meet();
    }
    const Range mine = piece(rank());
    std::byte* const out = op.out + (mine.begin - borders_[at(rank())]) * element;
    if (topology.nodes() == 1) {
      targets_.assign(1, out);
      reduce_over_node(op, place(rank()), mine.count);
    } else {
      std::byte* partial = scratch_.data();
      const auto reduce_part = [&](int part) {
        targets_.assign(1, partial);
        reduce_over_node(op, place(part), piece(part).count);
      };
      for (int part = 0; part < size(); ++part) {
        if (topology.node_of[static_cast<std::size_t>(part)] == topology.node) continue;
        if (topology.helper(part, topology.node) != rank()) continue;
        reduce_part(part);
        const Index theirs = piece(part).count * element;
        send(part, partial, theirs);
        partial += theirs;
      }
      reduce_part(rank());
      const Index bytes = mine.count * element;
      const std::byte* const over_node = partial;
      for (int node = 0; node < topology.nodes(); ++node) {
        if (node == topology.node) continue;
        partial += bytes;
        receive(topology.helper(rank(), node), partial, bytes);
      }
      co_await until([&] { return all_passed(); });
      reduce_over_nodes(op, over_node, over_node + bytes, mine.count, out);
    }
    if (staged_)  // before the bounce buffers are used again
      co_await meet();
  }
}

/// Every part comes to one member of each node, its helper there; all members of the node then copy
/// it from the helper. In each round at most `chunk` elements of every part.
CollectiveTask HostCommunicator::all_gather(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  const Index element = size_bytes(op.call.dtype), chunk = chunk_count(op, size());
  const Index largest = place_parts(op);
  for (Index begin = 0; begin < largest; begin += chunk) {
    const auto piece = [&](int part) { return piece_of(borders_, part, begin, chunk); };
    const auto bytes = [&](int part) { return piece(part).count * element; };
    const auto in_in = [&](int part) { return (piece(part).begin - borders_[at(part)]) * element; };
    const auto in_out = [&](int part) { return piece(part).begin * element; };
    // Where the helper of `part` on this node keeps it.
    const auto kept = [&](int part) {
      const int helper = topology.helper(part, topology.node);
      const int local = topology.local_of[static_cast<std::size_t>(helper)];
      if (staged_) return bounce_of(local) + part * chunk * element;
      if (helper == part) return input_of(op, local) + in_in(part);
      return output_of(op, local) + in_out(part);
    };
    const std::byte* mine = op.in + in_in(rank());
    if (staged_) copy_bytes(kept(rank()), mine, bytes(rank()));
    if (topology.nodes() > 1) {
      for (int part = 0; part < size(); ++part)
        if (topology.node_of[static_cast<std::size_t>(part)] != topology.node &&
            topology.helper(part, topology.node) == rank())
          receive(part, kept(part), bytes(part));
      for (int node = 0; node < topology.nodes(); ++node)
        if (node != topology.node) send(topology.helper(rank(), node), mine, bytes(rank()));
      co_await until([&] { return all_passed(); });
    }
    if (staged_ || topology.nodes() > 1) co_await meet();
    for (int part = 0; part < size(); ++part)
      copy_bytes(op.out + in_out(part), kept(part), bytes(part));
    if (staged_) co_await meet();
  }
}

/// The root, or on other nodes the first member, holds the data; the others of the node copy it
/// from there.
CollectiveTask HostCommunicator::broadcast(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  const Index element = size_bytes(op.call.dtype), chunk = chunk_count(op, 1);
  const int root = op.call.root, root_node = topology.node_of[static_cast<std::size_t>(root)];
  const int holder = root_node == topology.node ? root : topology.here()[0];
  const int holder_local = topology.local_of[static_cast<std::size_t>(holder)];
  for (Index begin = 0; begin < op.call.count; begin += chunk) {
    const Index bytes = std::min(chunk, op.call.count - begin) * element;
    std::byte* const mine = op.out + begin * element;
    std::byte* const held =
        staged_ ? bounce_of(holder_local) : output_of(op, holder_local) + begin * element;
    if (rank() == root) {
      copy_bytes(held, mine, bytes);
      for (int node = 0; node < topology.nodes(); ++node)
        if (node != topology.node)
          send(topology.ranks[static_cast<std::size_t>(node)][0], mine, bytes);
    } else if (rank() == holder) {
      receive(root, held, bytes);
    }
    co_await until([&] { return all_passed(); });
    if (staged_ || topology.nodes() > 1) co_await meet();
    if (rank() != root) copy_bytes(mine, held, bytes);
    if (staged_) co_await meet();
  }
}

/// Waits for all members of the node; then the first members of the nodes notify each other.
CollectiveTask HostCommunicator::barrier(const Operation& op) {
  co_await until([&] { return all_posted(); });
  open(op);
  const Topology& topology = parts_.topology;
  if (topology.local() == 0)
    for (int node = 0; node < topology.nodes(); ++node) {
      if (node == topology.node) continue;
      const int peer = topology.ranks[static_cast<std::size_t>(node)][0];
      receive(peer, nullptr, 0);
      send(peer, nullptr, 0);
    }
  co_await until([&] { return all_passed(); });
}

}  // namespace trireme::comm
