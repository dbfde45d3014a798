#include "runtime/store/lease/lock_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/files/plain_file.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/steps.h"
#include "runtime/store/system_call.h"

namespace trireme::store {

namespace {

constexpr Index lock_limit_bytes = 1 << 16;
constexpr const char* in_making = ".new-";
constexpr const char* on_its_way_out = ".away-";

enum class Linked { yes, name_is_taken, unsupported };

Linked link_file(const std::string& from, const std::string& to) {
  if (repeat_interrupted([&] { return ::link(from.c_str(), to.c_str()); }) == 0) return Linked::yes;
  // ENOENT: a job that has just taken the directory has cleaned `from` away.
  if (errno == EEXIST || errno == ENOENT) return Linked::name_is_taken;
  if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) return Linked::unsupported;
  fail_call(from + " -> " + to, "link");
}

/// A new file with its whole text, durable; or none.
File written(const std::string& path, const std::string& text) {
  File file = File::create(path, Caching::buffered);
  try {
    file.write_at(0, text.data(), static_cast<Index>(text.size()));
    file.sync();
  } catch (const Error&) {
    ::unlink(path.c_str());
    throw;
  }
  return file;
}

/// Without hard links the name exists before the text. A process that dies in between leaves a torn
/// lock.
void write_in_place(const std::string& lock, const std::string& text, File& file) {
  try {
    file = written(lock, text);
  } catch (const Error&) {
    if (!is_there(lock)) throw;
  }
}

bool is_file(int fd, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// Renames the lock away, and removes it if it is the one with this `id`. Another one, which came
/// in between, is put back; where that fails, its owner finds the lease not held, and commits
/// nothing.
void rename_away(const std::string& lock, const std::string& id, const std::string& own_id) {
  const std::string away = lock + on_its_way_out + own_id;
  if (::rename(lock.c_str(), away.c_str()) != 0) {
    if (errno == ENOENT) return;
    fail_call(lock, "rename");
  }
  const std::optional<LockSight> taken = look_at_lock(away);
  if (taken && taken->id() != id) link_file(away, lock);
  remove_file(away);
}

}  // namespace

std::string LockSight::id() const {
  const auto holder = parse_lease_holder(text);
  return holder ? holder->id : text;
}

std::optional<LockSight> look_at_lock(const std::string& lock) {
  const int fd = open_plain_file(lock, O_RDONLY);
  if (fd < 0 && errno == ENOENT) return {};
  check_call(fd, lock, "open");
  LockSight sight;
  sight.text.resize(static_cast<std::size_t>(lock_limit_bytes));
  const auto got =
      repeat_interrupted([&] { return ::read(fd, sight.text.data(), sight.text.size()); });
  struct stat status {};
  const int known = ::fstat(fd, &status);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  check_call(got, lock, "read");
  check_call(known, lock, "fstat");
  sight.text.resize(static_cast<std::size_t>(got));
  sight.changed_ns = Index{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return sight;
}

/// Written under a name of its own, and linked to the lock's in one instant. What is left of the
/// first name after a crash is removed by clean_leftovers().
File create_lock(const std::string& lock, const std::string& text, const std::string& id) {
  const std::string fresh = lock + in_making + id;
  File file = written(fresh, text);
  Linked linked;
  try {
    linked = link_file(fresh, lock);
  } catch (const Error&) {
    ::unlink(fresh.c_str());
    throw;
  }
  ::unlink(fresh.c_str());
  if (linked == Linked::unsupported) write_in_place(lock, text, file);
  return file;
}

/// Of several processes that try, one locks it by flock(2), and the others look again. If the file
/// system has no flock, a lock that appeared in between is restored.
void remove_lock(const std::string& lock, const std::string& id, const std::string& own_id) {
  const int fd = open_plain_file(lock, O_RDWR);
  if (fd < 0 && errno == ENOENT) return;
  check_call(fd, lock, "open");
  const bool busy = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  try {
    const std::optional<LockSight> sight = look_at_lock(lock);
    if (!busy && is_file(fd, lock) && sight && sight->id() == id) rename_away(lock, id, own_id);
  } catch (const Error&) {
    ::close(fd);
    throw;
  }
  ::close(fd);
}

bool is_left_of_lock(std::string_view name) {
  return name.starts_with(std::string("lock") + in_making) ||
         name.starts_with(std::string("lock") + on_its_way_out);
}

}  // namespace trireme::store
