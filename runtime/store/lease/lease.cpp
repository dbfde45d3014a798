// The lock file ROOT/lock: created by one process only, renewed by its time of change, taken from
// holders that are gone. It protects a directory against a second job, not against malice. Files of
// a job have its run id in their names as well.
#include "runtime/store/lease/lease.h"

#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
#include "runtime/core/process/processes.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/store/file.h"
#include "runtime/store/lease/lock_file.h"

namespace trireme {

using namespace store;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds poll_interval(0.05);

}  // namespace

struct Lease::State {
  State(const std::string& root, const LeaseHolder& holder, const LeaseOptions& lease_options)
      : lock(root + "/lock"), self(holder), options(lease_options) {}

  void take(const GiveUp& give_up);
  bool held() const;
  void renew();

  const std::string lock;
  const LeaseHolder self;
  const LeaseOptions options;
  std::optional<File> file;  // this lease's own, whatever name it has

  std::mutex mutex;
  std::condition_variable ending;
  bool ended = false;
  std::thread renewal;
};

// Who does not wait is refused by a holder that certainly lives, and by one that has ended while it
// was being looked at: its job was to end, and is not to begin again.
bool refuses_at_once(const LeaseOptions& options, const std::optional<LeaseHolder>& holder) {
  return options.wait_s <= 0 && holder && holder->certainly_lives();
}

[[noreturn]] void refuse(const std::string& lock, const LockSight& sight, Seconds renewed_ago) {
  const auto holder = parse_lease_holder(sight.text);
  throw Error(str("another job saves to this directory: ",
                  holder ? holder->described() : "one that its lock does not name",
                  "; it last renewed its lease ", static_cast<int>(renewed_ago.count()),
                  " s ago. End that job, or save to another directory; if it certainly runs no "
                  "more, remove ",
                  lock));
}

/// A holder on another machine counts as alive while its lock changes. Only this process's clock is
/// read: clocks of two machines are never compared.
void Lease::State::take(const GiveUp& give_up) {
  const auto begin = Clock::now();
  auto seen_at = begin;
  std::optional<LockSight> seen;
  bool renewed = false, taken_away = false;
  for (;;) {
    const std::optional<LockSight> sight = look_at_lock(lock);
    if (!sight) {
      require(options.wait_s > 0 || !seen || taken_away, lock,
              ": the process that held it has just ended: start again if that was not meant");
      file = create_lock(lock, to_text(self), self.id);
      continue;
    }
    if (sight->id() == self.id) return;  // even if the file server reported an error
    const auto now = Clock::now();
    if (sight != seen) {
      renewed = seen && seen->id() == sight->id();
      seen = sight;
      seen_at = now;
    }
    const auto holder = parse_lease_holder(sight->text);
    const double limit_s = sight->whole() ? options.stale_s : options.torn_s;
    const bool gone =
        holder && (holder->lineage.ended_before(self.lineage) || holder->certainly_gone());
    if (gone || now - seen_at >= Seconds(limit_s)) {
      remove_lock(lock, sight->id(), self.id);
      taken_away = true;
      continue;
    }
    if ((renewed && now - begin >= Seconds(options.wait_s)) || refuses_at_once(options, holder))
      refuse(lock, *sight, now - seen_at);
    if (give_up && give_up())
      throw LeaseGivenUp(str("the lease of ", holder ? holder->described() : "another job",
                             " is no longer waited for"));
    std::this_thread::sleep_for(poll_interval);
  }
}

bool Lease::State::held() const {
  if (::getpid() != self.pid) return false;  // a forked child
  try {
    const std::optional<LockSight> sight = look_at_lock(lock);
    return sight && sight->id() == self.id;
  } catch (const Error&) {
    return false;
  }
}

void Lease::State::renew() {
  std::unique_lock guard(mutex);
  while (!ending.wait_for(guard, Seconds(options.renew_s), [this] { return ended; }))
    (void)file->touch();  // a failure is repeated long before the lock counts as stale
}

Lease::Lease(const std::string& root, const std::string& run, const LeaseOptions& options,
             const GiveUp& give_up, const store::Lineage& lineage)
    : state_(std::make_unique<State>(root, LeaseHolder::self(run, lineage), options)) {
  make_directory(root);
  state_->take(give_up);
  // The renewing thread must not receive signals: other threads wait for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  state_->renewal = std::thread([state = state_.get()] { state->renew(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Lease::~Lease() {
  if (::getpid() != state_->self.pid) {
    // A forked child has neither the lease nor the thread. A std::thread that was not joined cannot
    // be destroyed, so the state is leaked.
    (void)state_.release();
    return;
  }
  {
    const std::lock_guard guard(state_->mutex);
    state_->ended = true;
  }
  state_->ending.notify_all();
  state_->renewal.join();
  try {
    if (state_->held()) remove_lock(state_->lock, state_->self.id, state_->self.id);
  } catch (const Error&) {  // the lock stays, and becomes stale
  }
}

bool Lease::held() const { return state_->held(); }

}  // namespace trireme

namespace trireme::store {

namespace {

std::string boot_id() { return first_line("/proc/sys/kernel/random/boot_id"); }

std::string pid_namespace() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
}

}  // namespace

LeaseHolder LeaseHolder::self(const std::string& run, const Lineage& lineage) {
  const Index pid = ::getpid();
  const auto process = read_process_stat(pid);
  const std::time_t now = std::time(nullptr);
  std::random_device random;
  return {fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random()),
          host_name(),
          pid,
          process ? process->started_ticks : -1,
          boot_id(),
          pid_namespace(),
          run,
          fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now)),
          lineage};
}

bool LeaseHolder::can_be_asked_for() const {
  return !boot.empty() && boot == boot_id() && !processes.empty() && processes == pid_namespace();
}

bool LeaseHolder::certainly_lives() const { return can_be_asked_for() && !certainly_gone(); }

bool LeaseHolder::certainly_gone() const {
  if (!can_be_asked_for()) return false;
  const auto process = read_process_stat(pid);
  if (process) return process->started_ticks != started || process->state == 'Z';
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

std::string LeaseHolder::described() const {
  return fmt::format("pid {} on {} (run {}, since {})", pid, host, run, since);
}

void describe(RecordOf<LeaseHolder> auto& holder, auto& member) {
  member("id", holder.id);
  member("host", holder.host);
  member("pid", within(holder.pid, 1, INT_MAX));
  member("started", holder.started);
  member("boot", holder.boot);
  member("processes", holder.processes);
  member("run", holder.run);
  member("since", holder.since);
  member.when(!holder.lineage.run.empty(), "supervised", holder.lineage.run);
  member.when(!holder.lineage.run.empty(), "attempt", holder.lineage.attempt);
}

std::string to_text(const LeaseHolder& holder) { return to_text(to_json(holder)) + "\n"; }

std::optional<LeaseHolder> parse_lease_holder(std::string_view text) {
  try {
    const LeaseHolder holder = from_json<LeaseHolder>(parse_json(text));
    require(!holder.id.empty(), "no process");
    return holder;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace trireme::store
