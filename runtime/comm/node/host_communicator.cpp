// The operations of a group: starting, polling and waiting.
#include "runtime/comm/node/host_communicator.h"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#include "runtime/comm/arguments.h"

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

}  // namespace trireme::comm
