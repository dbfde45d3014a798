// The times of what a group of ranks communicates. Each member has a queue for collectives and one
// for exchanges, both beside its work: an operation begins when all that take part have reached it
// in their queues. Nothing here knows tasks or memory.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/graph/work.h"

namespace trireme::virtual_clock {

class CollectiveQueue {
 public:
  using Seconds = std::function<double(const CollectiveWork&)>;
  CollectiveQueue(int members, Seconds seconds)
      : seconds_(std::move(seconds)), started_(static_cast<std::size_t>(members), 0) {}

  /// Returns its number. Throws: Error when another member started something else as its number.
  Index start(int member, const CollectiveWork& work, double now);
  /// Nothing until all members have started it.
  std::optional<double> end(Index number) const;

 private:
  struct Call {
    CollectiveWork work;
    int first = 0;  // member that started it first
    std::size_t started = 0;
    double begin = 0, end = 0;
  };
  Seconds seconds_;
  std::vector<Index> started_;  // per member
  std::vector<Call> calls_;
};

class ExchangeQueue {
 public:
  using Seconds = std::function<double(Index bytes, int from, int to)>;
  ExchangeQueue(int members, Seconds seconds)
      : seconds_(std::move(seconds)), members_(static_cast<std::size_t>(members)) {}

  /// Returns its number, of this member. Throws: Error when a message and its receive differ.
  Index start(int member, std::span<const Message> sends, std::span<const Message> receives,
              double now);
  /// Nothing until all partners have started theirs, and all before it on both sides have ended.
  std::optional<double> end(int member, Index number) const;

 private:
  struct Exchange {
    double start = 0, seconds = 0;
    int unmatched = 0;                            // messages
    std::vector<std::pair<int, Index>> partners;  // member, number
    std::optional<double> active, end;
  };
  struct Member {
    std::deque<Exchange> exchanges;
    Index head = 0;  // the oldest that has not ended
  };
  struct Half {  // of a message whose other half is missing
    Index exchange, bytes;
  };
  struct Line {  // between two members
    std::deque<Half> sends, receives;
  };

  Exchange& at(int member, Index number);
  void match(int from, int to, bool sent, Half half);
  void settle(int member);
  bool advance(int member, std::vector<int>& touched);

  Seconds seconds_;
  std::vector<Member> members_;
  std::map<std::pair<int, int>, Line> lines_;
};

}  // namespace trireme::virtual_clock
