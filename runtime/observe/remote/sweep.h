// Ends and removes what earlier attempts of a run have left on this node, before an attempt uses
// it. mpirun ends the ranks of other nodes, but not those of a node that was cut off, nor one that
// is stopped when its daemon dies.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trireme::observe {

/// An attempt as the environment of each of its processes names it.
struct RunAttempt {
  std::string key;          // $TRIREME_RUN_KEY: unlike that of any other run
  std::int64_t number = 0;  // $TRIREME_ATTEMPT
};

struct Sweep {
  int ended = 0;  // processes
  int left = 0;   // that have not ended in time
  bool any() const { return ended + left > 0; }
};

/// Kills processes with this key and a lower number in their environment, and waits until they have
/// ended, at most `longest_s`; `waits` is called meanwhile. Never touches another process. Throws:
/// Error.
Sweep end_earlier_attempts(const RunAttempt& attempt, double longest_s,
                           const std::function<void()>& waits);

/// Removes the directories of earlier attempts beside `directory`, that of this one,
/// "trireme-KEY-a7". Snapshots are no attempt's.
void remove_earlier_directories(const RunAttempt& attempt, const std::string& directory);

/// Returns when a process that has ended gives no more memory back: `used`, in bytes, did not fall
/// for `pause_s`. At most `longest_s`.
void await_free_memory(const std::function<std::optional<std::uint64_t>()>& used, double pause_s,
                       double longest_s, const std::function<void()>& waits);
/// Awaits the free memory of all GPUs of this node, by NVML.
void await_free_gpus(double longest_s, const std::function<void()>& waits);

}  // namespace trireme::observe
