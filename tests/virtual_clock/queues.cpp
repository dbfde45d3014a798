#include "tests/virtual_clock/queues.h"

#include <algorithm>

#include "runtime/core/at.h"

namespace trireme::virtual_clock {

using trireme::at;

Index CollectiveQueue::start(int member, const CollectiveWork& work, double now) {
  const Index number = started_[at(member)]++;
  if (at(number) == calls_.size()) calls_.push_back({work, member});
  Call& call = calls_[at(number)];
  require(call.work == work, "member ", call.first, " starts ", name(call.work.kind), " of ",
          call.work.bytes, " bytes as collective ", number, ", and member ", member, ' ',
          name(work.kind), " of ", work.bytes);
  call.begin = std::max(call.begin, now);
  if (++call.started < started_.size()) return number;
  if (number > 0) call.begin = std::max(call.begin, calls_[at(number - 1)].end);
  call.end = call.begin + seconds_(work);
  return number;
}

std::optional<double> CollectiveQueue::end(Index number) const {
  const Call& call = calls_[at(number)];
  return call.started == started_.size() ? std::optional(call.end) : std::nullopt;
}

ExchangeQueue::Exchange& ExchangeQueue::at(int member, Index number) {
  return members_[trireme::at(member)].exchanges[trireme::at(number)];
}

Index ExchangeQueue::start(int member, std::span<const Message> sends,
                           std::span<const Message> receives, double now) {
  Member& mine = members_[trireme::at(member)];
  const auto number = static_cast<Index>(mine.exchanges.size());
  Exchange& exchange = mine.exchanges.emplace_back();
  exchange.start = now;
  exchange.unmatched = static_cast<int>(sends.size() + receives.size());
  for (const Message& m : sends)
    exchange.seconds = std::max(exchange.seconds, seconds_(m.bytes, member, m.peer));
  for (const Message& m : receives)
    exchange.seconds = std::max(exchange.seconds, seconds_(m.bytes, m.peer, member));
  for (const Message& m : sends) match(member, m.peer, true, {number, m.bytes});
  for (const Message& m : receives) match(m.peer, member, false, {number, m.bytes});
  settle(member);
  return number;
}

std::optional<double> ExchangeQueue::end(int member, Index number) const {
  return members_[trireme::at(member)].exchanges[trireme::at(number)].end;
}

/// Between two members the n-th send meets the n-th receive.
void ExchangeQueue::match(int from, int to, bool sent, Half half) {
  Line& line = lines_[{from, to}];
  std::deque<Half>& others = sent ? line.receives : line.sends;
  if (others.empty()) return (sent ? line.sends : line.receives).push_back(half);
  const Half other = others.front();
  others.pop_front();
  require(other.bytes == half.bytes, "a message from member ", from, " to ", to, " has ",
          sent ? half.bytes : other.bytes, " bytes, and its receive ",
          sent ? other.bytes : half.bytes);
  const int here = sent ? from : to, there = sent ? to : from;
  Exchange &mine = at(here, half.exchange), &theirs = at(there, other.exchange);
  --mine.unmatched;
  --theirs.unmatched;
  mine.partners.emplace_back(there, other.exchange);
  theirs.partners.emplace_back(here, half.exchange);
}

void ExchangeQueue::settle(int member) {
  std::vector<int> touched = {member};
  while (!touched.empty()) {
    const int next = touched.back();
    touched.pop_back();
    while (advance(next, touched)) {
    }
  }
}

/// The oldest exchange becomes active, or ends. Adds the members that this may move.
bool ExchangeQueue::advance(int member, std::vector<int>& touched) {
  Member& mine = members_[trireme::at(member)];
  if (trireme::at(mine.head) == mine.exchanges.size()) return false;
  Exchange& head = at(member, mine.head);
  const bool moved = !head.active;
  if (moved) {
    const double before = mine.head == 0 ? 0 : *at(member, mine.head - 1).end;
    head.active = std::max(head.start, before);
    for (const auto& [peer, number] : head.partners) touched.push_back(peer);
  }
  if (head.unmatched > 0) return moved;
  double begin = *head.active;
  for (const auto& [peer, number] : head.partners) {
    if (!at(peer, number).active) return moved;
    begin = std::max(begin, *at(peer, number).active);
  }
  head.end = begin + head.seconds;
  ++mine.head;
  return true;
}

}  // namespace trireme::virtual_clock
