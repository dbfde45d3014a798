#include "runtime/comm/progress.h"

#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include <sched.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

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
auto Progress::fail_on_error(F f) {
  try {
    return f();
  } catch (const std::exception& error) {
    for (Pending* pending : pending_) pending->fail(error.what());
    throw;
  }
}

bool Progress::poll() {
  return fail_on_error([&] { return poll_all(); });
}

void Progress::wait_until(FunctionRef<bool()> done, FunctionRef<std::string()> describe,
                          FunctionRef<int()> missing) {
  fail_on_error([&] { wait(done, describe, missing); });
}

bool Progress::poll_all() {
  bool moved = false;
  for (Pending* pending : pending_) moved |= pending->poll();
  return moved;
}

/// Throws: Error after the time-out, or when the missing rank has ended.
void Progress::check(Waited& waited, FunctionRef<std::string()> describe,
                     FunctionRef<int()> missing) {
  constexpr std::chrono::milliseconds ask_after(500);
  const Clock::time_point now = Clock::now();
  if (now - waited.begun > std::chrono::duration<double>(options_.timeout_s))
    throw Error(str(describe(), "; it has waited ", options_.timeout_s, " s"));
  if (now - waited.unmoved < ask_after || ++waited.checks % 16 != 0) return;
  const int rank = missing();
  const bool has_ended = rank >= 0 && options_.has_ended(rank);
  if (has_ended && rank == waited.ended)
    throw Error(str(describe(), "; world rank ", rank,
                    " has ended its part of the program and comes no more"));
  if (has_ended) waited.unmoved = now;  // its last messages may still be in flight
  waited.ended = has_ended ? rank : -1;
}

void Progress::wait(FunctionRef<bool()> done, FunctionRef<std::string()> describe,
                    FunctionRef<int()> missing) {
  // Spinning saves microseconds while every rank has a core. Where ranks share cores it takes time
  // from the rank that is waited for.
  const int spins = options_.cores_are_shared ? 1 : 100;
  constexpr std::chrono::milliseconds sleep_after(4);
  Waited waited;
  for (int idle = 0; !done();) {
    page().heartbeat();
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
    if (waited.begun == Clock::time_point()) waited.begun = now;
    if (idle == spins + 1) waited.unmoved = now;
    if (idle % 16 == 0) options_.while_waiting();
    if (now - waited.unmoved < sleep_after) {
      ::sched_yield();
    } else {
      check(waited, describe, missing);
      sleep_us(50);
    }
  }
  if (page().on() && waited.begun != Clock::time_point())
    page().add_wait(std::chrono::nanoseconds(Clock::now() - waited.begun).count());
}

}  // namespace trireme::comm
