#include "runtime/comm/progress.h"

#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include <sched.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void sleep_us(long us) {
  const timespec time{0, us * 1000};
  ::nanosleep(&time, nullptr);
}

}  // namespace

Progress::Progress(Options options) : options_(std::move(options)) {
  random_ = random_for(options_.hostile_seed, "hostile transport");
}

Index Progress::dice(Index below) {
  if (!hostile()) return 0;
  return static_cast<Index>(random_.bits(draws_++)) % below;
}

template <class F>
auto Progress::give_up_on_error(F f) {
  try {
    return f();
  } catch (const std::exception& error) {
    for (Pending* pending : pending_) pending->give_up(error.what());
    throw;
  }
}

bool Progress::poll() {
  return give_up_on_error([&] { return poll_all(); });
}

void Progress::wait_until(FunctionRef<bool()> done, FunctionRef<std::string()> describe) {
  give_up_on_error([&] { wait(done, describe); });
}

bool Progress::poll_all() {
  bool moved = false;
  for (Pending* pending : pending_) moved |= pending->poll();
  return moved;
}

void Progress::wait(FunctionRef<bool()> done, FunctionRef<std::string()> describe) {
  // Spinning wins microseconds while every rank has a core; where ranks share cores it costs time
  // slices.
  const int spins = options_.cores_are_shared ? 1 : 100;
  constexpr std::chrono::milliseconds sleep_after(4);
  Clock::time_point since;  // the last time that anything moved, once spinning has ended
  Clock::time_point begun;
  for (int idle = 0; !done();) {
    if (dice(8) == 1) sleep_us(dice(200));
    if (poll_all()) {
      idle = 0;
      continue;
    }
    if (++idle <= spins) {
      pause_core();
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (begun == Clock::time_point()) begun = now;
    if (idle == spins + 1) since = now;
    if (idle % 16 == 0) options_.while_waiting();
    if (now - since < sleep_after) {
      ::sched_yield();
    } else {
      if (now - begun > std::chrono::duration<double>(options_.timeout_s)) throw Error(describe());
      sleep_us(50);
    }
  }
}

}  // namespace trireme
