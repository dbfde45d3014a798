// Which steps of an attempt were not done again, although they were not durable when it ended: the
// next attempt has started from a snapshot.
#pragma once

#include <cstddef>

#include "launch/supervisor/records/ledger.h"

namespace trireme::supervisor {

struct RecoveredSteps {
  Index lost_steps = 0;  // that its end has cost: from where the next attempt has started
  double seconds = 0;    // of AttemptEnded::lost_s that were not lost
};
/// Of an attempt that has ended.
RecoveredSteps recovered_steps(const History& history, std::size_t attempt);

}  // namespace trireme::supervisor
