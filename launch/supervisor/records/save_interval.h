// The interval between saves of a run, and the one that loses least time.
#pragma once

#include <optional>
#include <string>

#include "launch/supervisor/records/ledger.h"

namespace trireme::supervisor {

/// What the interval between saves follows from. Times are in seconds.
struct SaveInterval {
  double steps = 0, step_s = 0;    // the mean number between two saves; the time of a step
  double stall_s = 0, save_s = 0;  // what a save costs training at most; what it takes
  double failure_s = 0;            // the mean time between failures
  /// Returns the interval in steps that loses least: T = sqrt(2 C M), for a stall C of each save
  /// and a mean time M between failures (J. W. Young, "A first order approximation to the optimum
  /// checkpoint interval", 1974), but at least as long as a save takes, since the next one waits
  /// for it.
  double best_steps() const;
};
/// Returns nothing where there were fewer than two failures, or no two saves in one attempt.
std::optional<SaveInterval> save_interval(const History& history);

/// Returns when the next attempt saves, with `--save-interval auto`: every best_steps() once that
/// is known. Before, every 10 minutes, or after two failures before any attempt has made two saves,
/// every quarter of the mean time between failures; but every `seconds` where the user has given
/// that.
SaveRule choose_saves(const History& history, double seconds);
/// Returns "every 120 steps" or "every 600 s".
std::string to_text(const SaveRule& rule);

/// Returns a line for people.
std::string to_text(const SaveInterval& interval);
Json to_json(const SaveInterval& interval);

}  // namespace trireme::supervisor
