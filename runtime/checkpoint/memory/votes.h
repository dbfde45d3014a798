// Votes of ranks, added over all of them at a step boundary.
#pragma once

#include <cmath>
#include <optional>

namespace trireme::checkpoint {

inline constexpr double busy_vote = 1;
/// More than any number of ranks that are busy.
inline constexpr double failed_vote = 1e9;

/// Whether a rank has failed; nothing as long as a rank is busy.
inline std::optional<bool> has_failed(double sum) {
  if (std::fmod(sum, failed_vote) != 0) return std::nullopt;
  return sum > 0;
}

}  // namespace trireme::checkpoint
