// The lock file ROOT/lock: created by one process only, renewed by its time of change, taken from holders that are gone. It
// guards a directory against a second job, not against malice; what a job writes has its run id in the name all the same.
#include "trireme/store/lease.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/store/file.h"

#include "runtime/store/lease_holder.h"
#include "runtime/store/system_call.h"

namespace trireme {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Index lock_limit_bytes = 1 << 16;
constexpr Seconds poll_interval(0.05);

/// The lock as seen once. Opening it makes network file systems ask their server.
struct Sight {
  std::string text;
  Index changed_ns = 0;
  friend bool operator==(const Sight&, const Sight&) = default;
};

/// Nothing when there is no lock.
std::optional<Sight> look_at(const std::string& path) {
  const int fd = repeat_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (fd < 0 && errno == ENOENT) return {};
  check_call(fd, path, "open");
  Sight sight;
  sight.text.resize(static_cast<std::size_t>(lock_limit_bytes));
  const auto got =
      repeat_interrupted([&] { return ::read(fd, sight.text.data(), sight.text.size()); });
  struct stat status {};
  const int known = ::fstat(fd, &status);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  check_call(got, path, "read");
  check_call(known, path, "fstat");
  sight.text.resize(static_cast<std::size_t>(got));
  sight.changed_ns = Index{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return sight;
}

std::string id_in(const Sight& sight) {
  const auto holder = parse_lease_holder(sight.text);
  return holder ? holder->id : sight.text;
}

bool is_file(int fd, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// Renames the lock away, and removes it if it is the one with this `id`. Another one, which came in between, is put back;
/// where that fails, its owner finds the lease not held, and commits nothing.
void rename_away(const std::string& lock, const std::string& id, const std::string& own_id) {
  const std::string away = lock + ".away-" + own_id;
  if (::rename(lock.c_str(), away.c_str()) != 0) {
    if (errno == ENOENT) return;
    fail_call(lock, "rename");
  }
  const std::optional<Sight> taken = look_at(away);
  if (taken && id_in(*taken) != id) (void)!::link(away.c_str(), lock.c_str());
  remove_file(away);
}

/// Removes the lock with this `id`. Of several processes that would, one has it locked by flock(2), and the others look again;
/// where the file system has no flock, what came in between is put back.
void remove_lock(const std::string& lock, const std::string& id, const std::string& own_id) {
  const int fd = repeat_interrupted([&] { return ::open(lock.c_str(), O_RDWR | O_CLOEXEC); });
  if (fd < 0 && errno == ENOENT) return;
  check_call(fd, lock, "open");
  const bool busy = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  try {
    const std::optional<Sight> sight = look_at(lock);
    if (!busy && is_file(fd, lock) && sight && id_in(*sight) == id) rename_away(lock, id, own_id);
  } catch (const Error&) {
    ::close(fd);
    throw;
  }
  ::close(fd);
}

}  // namespace

struct Lease::State {
  State(const std::string& root, const std::string& run, const LeaseOptions& lease_options)
      : lock(root + "/lock"), self(LeaseHolder::self(run)), options(lease_options) {}
  ~State();

  bool created();
  void take();
  bool held() const;
  void renew();

  const std::string lock;
  const LeaseHolder self;
  const LeaseOptions options;
  int descriptor = -1;  // of this lease's own file, whatever name it has

  std::mutex mutex;
  std::condition_variable ending;
  bool ended = false;
  std::thread renewal;
};

/// False when there is a lock.
bool Lease::State::created() {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode = 0666;
  const int fd = repeat_interrupted([&] { return ::open(lock.c_str(), flags, mode); });
  if (fd < 0 && errno == EEXIST) return false;
  check_call(fd, lock, "open");
  if (descriptor >= 0) ::close(descriptor);
  descriptor = fd;
  const std::string text = to_text(self);
  for (std::string_view rest = text; !rest.empty();) {
    const auto wrote = repeat_interrupted([&] { return ::write(fd, rest.data(), rest.size()); });
    if (wrote > 0) {
      rest.remove_prefix(static_cast<std::size_t>(wrote));
      continue;
    }
    const int reason = wrote < 0 ? errno : ENOSPC;
    ::unlink(lock.c_str());
    errno = reason;
    fail_call(lock, "write");
  }
  return true;
}

[[noreturn]] void refuse(const std::string& lock, const Sight& sight, Seconds renewed_ago) {
  const auto holder = parse_lease_holder(sight.text);
  throw Error(str("another job saves to this directory: ",
                  holder ? holder->described() : "one that its lock does not name",
                  "; it last renewed its lease ", static_cast<int>(renewed_ago.count()),
                  " s ago. End that job, or save to another directory; if it certainly runs no "
                  "more, remove ",
                  lock));
}

/// Whether a holder elsewhere lives is seen only from its lock changing, by this process's own clock: clocks of two machines
/// are never compared.
void Lease::State::take() {
  const auto begin = Clock::now();
  auto seen_at = begin;
  std::optional<Sight> seen;
  bool renewed = false;
  for (;;) {
    const std::optional<Sight> sight = look_at(lock);
    if (!sight) {
      if (created() && held()) return;
      continue;
    }
    const auto now = Clock::now();
    if (sight != seen) {
      renewed = seen && id_in(*seen) == id_in(*sight);
      seen = sight;
      seen_at = now;
    }
    const auto holder = parse_lease_holder(sight->text);
    if (now - seen_at >= Seconds(options.stale_s) || (holder && holder->certainly_gone())) {
      remove_lock(lock, id_in(*sight), self.id);
      continue;
    }
    if (renewed && now - begin >= Seconds(options.wait_s)) refuse(lock, *sight, now - seen_at);
    std::this_thread::sleep_for(poll_interval);
  }
}

bool Lease::State::held() const {
  if (::getpid() != self.pid) return false;  // a forked child
  try {
    const std::optional<Sight> sight = look_at(lock);
    return sight && id_in(*sight) == self.id;
  } catch (const Error&) {
    return false;
  }
}

void Lease::State::renew() {
  std::unique_lock guard(mutex);
  while (!ending.wait_for(guard, Seconds(options.renew_s), [this] { return ended; }))
    ::futimens(descriptor, nullptr);  // what fails now is done again, long before it is stale
}

Lease::State::~State() {
  if (descriptor >= 0) ::close(descriptor);
}

Lease::Lease(const std::string& root, const std::string& run, const LeaseOptions& options)
    : state_(std::make_unique<State>(root, run, options)) {
  make_directory(root);
  state_->take();
  // Signals are for the threads that wait for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  state_->renewal = std::thread([state = state_.get()] { state->renew(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Lease::~Lease() {
  if (::getpid() != state_->self.pid) {
    // A forked child has neither the lease nor the thread, without which nothing of this can be destroyed.
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
  } catch (const Error&) {  // the lock stays, and will be found stale
  }
}

bool Lease::held() const { return state_->held(); }

}  // namespace trireme
