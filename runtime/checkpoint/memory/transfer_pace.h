// TransferPace: when the next piece of a transfer may start, so that it takes no more than a tenth
// of the time from training. A piece costs the time that this thread spends on it, and the network
// at least as long as the quickest piece has taken.
#pragma once

#include <algorithm>

#include "trireme/core/dtype.h"

namespace trireme::checkpoint {

/// Times are in seconds, of a clock that does not jump.
class TransferPace {
 public:
  static constexpr double most = 0.1;  // of the time

  /// A transfer begins; what the one before has cost no longer counts.
  void begin(double now) {
    began_ = now;
    worked_ = 0;
    pieces_ = 0;
  }
  void started(double now) { started_ = now; }
  /// `whole`: a piece of the usual size; short ones say nothing of the network.
  void ended(double now, bool whole = true) {
    if (!whole) return;
    quickest_ = pieces_ever_ == 0 ? now - started_ : std::min(quickest_, now - started_);
    ++pieces_ever_;
    ++pieces_;
  }
  /// This thread has spent so long on it.
  void worked(double seconds) { worked_ += seconds; }
  /// Also with the next piece it is no more than the tenth, once there was one to judge by.
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

}  // namespace trireme::checkpoint
