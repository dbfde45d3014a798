#include "runtime/store/safetensors/read_ahead.h"

namespace trireme::safetensors {

void ReadAhead::begin(Phase phase, double seconds) {
  phase_ = phase;
  bytes_ = 0;
  begin_ = seconds;
}

/// Both kinds are known, or the other one is tried next.
void ReadAhead::end_measure() {
  const double here = cost_of(announces_), other = cost_of(!announces_);
  is_chosen_ = other >= 0;
  if (!is_chosen_ || other < here) announces_ = !announces_;
}

void ReadAhead::has_read(Index bytes, double seconds) {
  bytes_ += bytes;
  if (phase_ == Phase::settle) {
    if (bytes_ >= settled_bytes) begin(is_chosen_ ? Phase::keep : Phase::measure, seconds);
    return;
  }
  if (bytes_ < (phase_ == Phase::keep ? kept_bytes : measured_bytes)) return;
  cost_of(announces_) = (seconds - begin_) / static_cast<double>(bytes_);
  if (phase_ == Phase::keep) cost_of(!announces_) = -1;
  end_measure();
  begin(Phase::settle, seconds);
}

}  // namespace trireme::safetensors
