// SlotTransfer sends whole slots from rank to rank: to a partner on another node, and back
// to a rank that has lost its own. All ranks of the group start it together; pieces follow each
// other, one exchange at a time, so that little of the network is taken at once.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/core/dtype.h"

#include "runtime/observe/status_page.h"

namespace trireme::checkpoint {

/// TransferPace: when the next piece of a transfer may start, so that it takes no more than a tenth
/// of the time from training. A piece costs the time that this thread spends on it, and the network
/// at least as long as the quickest piece has taken. Times are in seconds, by a clock that does not
/// jump.
class TransferPace {
 public:
  static constexpr double most = 0.1;  // the share of the time

  /// Says that a transfer begins; what the one before has cost no longer counts.
  void begin(double now) {
    began_ = now;
    worked_ = 0;
    pieces_ = 0;
  }
  void started(double now) { started_ = now; }
  /// Says that a piece has arrived. `whole`: it has the usual size; short ones say nothing of the
  /// network.
  void ended(double now, bool whole = true) {
    if (!whole) return;
    quickest_ = pieces_ever_ == 0 ? now - started_ : std::min(quickest_, now - started_);
    ++pieces_ever_;
    ++pieces_;
  }
  /// Adds time that this thread has spent on it.
  void worked(double seconds) { worked_ += seconds; }
  /// Returns whether with the next piece it still takes no more than the tenth, once there was one
  /// to judge by.
  bool may_start(double now) const {
    if (pieces_ == 0) return worked_ <= most * (now - began_);
    const auto next = static_cast<double>(pieces_ + 1);
    const double host = worked_ / static_cast<double>(pieces_);
    return next * std::max(host, quickest_) <= most * (now - began_);
  }

 private:
  double began_ = 0, started_ = 0, worked_ = 0, quickest_ = 0;
  Index pieces_ = 0, pieces_ever_ = 0;
};

/// One end of the way of a slot: what is sent to `peer`, or received from it.
struct SlotEnd {
  int peer = 0;
  std::byte* data = nullptr;
  Index bytes = 0;
  std::string header = {};  // the text of its header; filled where the slot is received
};

class SlotTransfer {
 public:
  /// `group`: used for nothing else.
  explicit SlotTransfer(std::unique_ptr<Communicator> group) : group_(std::move(group)) {}

  /// Starts a transfer, when the last one is done. Both ends of a way have the same `bytes`.
  void start(std::vector<SlotEnd> sends, std::vector<SlotEnd> receives, Stream& stream);
  /// Advances it, at the pace that training allows; returns whether it is done. Never blocks.
  bool poll(Stream& stream) { return advance(stream, false); }
  /// Finishes it as fast as it can. `page` shows that this rank is alive, and that pieces arrive.
  void wait(Stream& stream, observe::StatusPage& page);
  /// Returns the slots that were received, with their headers.
  const std::vector<SlotEnd>& received() const { return receives_; }

 private:
  bool advance(Stream& stream, bool at_once);
  bool take_turn(Stream& stream, bool at_once, double now);
  void start_round(Stream& stream, double now);
  bool has_whole_piece() const;

  std::vector<SlotEnd> sends_, receives_;
  std::vector<Message> out_, in_;  // the messages of a round
  Index round_ = 0, rounds_ = 0;   // round 0: headers
  bool under_way_ = false;         // a round is under way
  TransferPace pace_;
  Ticket ticket_;
  std::unique_ptr<Communicator> group_;  // goes first, with what is under way
};

}  // namespace trireme::checkpoint
