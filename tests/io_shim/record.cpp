#include "tests/io_shim/record.h"

#include <cerrno>
#include <cstdio>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/io_shim/settings.h"

namespace io_shim {

std::unique_lock<std::recursive_mutex> recording_order() {
  static auto* const mutex = new std::recursive_mutex;  // calls may come after main
  return settings().record.empty() ? std::unique_lock<std::recursive_mutex>()
                                   : std::unique_lock(*mutex);
}

void append(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  const int before = errno;
  using Open = int(const char*, int, ...);
  using Write = ssize_t(int, const void*, size_t);
  static const auto real_open = reinterpret_cast<Open*>(::dlsym(RTLD_NEXT, "open"));
  static const auto real_write = reinterpret_cast<Write*>(::dlsym(RTLD_NEXT, "write"));
  const int fd = real_open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0 || real_write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::fprintf(stderr, "io_shim: %s cannot be written\n", file.c_str());
    ::_exit(2);
  }
  ::close(fd);
  errno = before;
}

void append(const Record& record) {
  if (settings().record.empty()) return;
  std::string text = std::string(record.name) + " " + std::to_string(record.offset) + " " +
                     std::to_string(record.bytes) + " " + std::to_string(record.path.size()) + " " +
                     std::to_string(record.other.size()) + "\n" + record.path + record.other;
  text.append(static_cast<const char*>(record.data), static_cast<size_t>(record.bytes));
  append(settings().record, text);
}

}  // namespace io_shim
