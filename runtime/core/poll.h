// poll: how a host waits for a GPU by repeated queries. Every query takes the lock of the CUDA
// context, which launching threads (NCCL has one per group) need. So the longer the wait, the rarer
// the queries.
//
// Not installed; modules above may include it.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace trireme {

/// The pause before the next query of a host that has waited for `waited`: none in the first 50 µs,
/// then a sixteenth of `waited`, at most 20 µs. So pauses lengthen a wait by at most a sixteenth,
/// and never by more than 20 µs.
constexpr std::chrono::nanoseconds pause_after(std::chrono::nanoseconds waited) {
  constexpr std::chrono::microseconds without_pauses(50), longest(20);
  if (waited < without_pauses) return {};
  return std::min<std::chrono::nanoseconds>(waited / 16, longest);
}

/// The clock of poll, and its pause: it yields its core to others. It does not sleep: Linux wakes a
/// thread up to 50 µs late (prctl(2), PR_SET_TIMERSLACK).
struct PollClock {
  auto now() const { return std::chrono::steady_clock::now(); }
  void spend() const { std::this_thread::yield(); }
};

/// Calls ask() until it returns true, pausing (pause_after) in between. Throws what ask() does.
template <class Ask, class Clock = PollClock>
void poll(Ask ask, Clock&& clock = {}) {
  const auto begun = clock.now();
  while (!ask()) {
    const auto asked = clock.now();
    const auto next = asked + pause_after(asked - begun);
    while (clock.now() < next) clock.spend();
  }
}

}  // namespace trireme
