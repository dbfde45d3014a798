// DurableWatch: the newest durable step of a run, at so little cost that it is asked for at each
// look.
#pragma once

#include <string>
#include <utility>

#include "trireme/core/dtype.h"

namespace trireme::supervisor {

class DurableWatch {
 public:
  /// `run`: the directory of checkpoints, which need not exist yet.
  explicit DurableWatch(std::string run) : run_(std::move(run)) {}
  /// 0: there is none. `now`: seconds of a clock that does not jump. The directory is read where
  /// its date has changed, and every 2 s: some network file systems show dates late, and two
  /// commits within one tick of the clock of the file system have one date.
  Index newest(double now);
  /// The next newest() reads the directory, whatever its date.
  void look_again() { changed_ns_ = -1; }

 private:
  std::string run_;
  Index newest_ = 0, changed_ns_ = -1;
  double checked_ = 0;
};

}  // namespace trireme::supervisor
