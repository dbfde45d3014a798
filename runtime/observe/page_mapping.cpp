#include "runtime/observe/page_mapping.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/files/plain_file.h"

namespace trireme::observe {
namespace {

[[noreturn]] void fail(const std::string& path, const char* call, int error) {
  throw Error(str(path, ": ", call, ": ", std::strerror(error)));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : number_(open_plain_file(path, flags, 0600)) {
    if (number_ < 0) fail(path, "open", errno);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

void* map(const std::string& path, const Descriptor& file, std::size_t bytes, int protection) {
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED, file.number(), 0);
  if (data == MAP_FAILED) fail(path, "mmap", errno);
  return data;
}

}  // namespace

std::string page_path(const std::string& directory, int rank) {
  return fmt::format("{}/rank-{:05}", directory, rank);
}

PageMapping PageMapping::create(const std::string& path, std::size_t bytes,
                                const std::function<void(void*)>& fill) {
  const std::string unfinished = fmt::format("{}.{}", path, ::getpid());
  PageMapping mapping;
  try {
    const Descriptor file(unfinished, O_RDWR | O_CREAT | O_TRUNC);
    // Returns the error rather than setting errno.
    if (const int error = ::posix_fallocate(file.number(), 0, static_cast<off_t>(bytes)))
      fail(unfinished, "posix_fallocate", error);
    mapping = PageMapping(map(unfinished, file, bytes, PROT_READ | PROT_WRITE), bytes);
    fill(mapping.data());
    if (std::rename(unfinished.c_str(), path.c_str()) != 0) fail(path, "rename", errno);
  } catch (...) {
    ::unlink(unfinished.c_str());
    throw;
  }
  return mapping;
}

PageMapping PageMapping::open(const std::string& path, std::size_t bytes, int flags,
                              int protection) {
  const Descriptor file(path, flags);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) fail(path, "fstat", errno);
  require(status.st_size >= static_cast<off_t>(bytes), path, ": no status page: ", status.st_size,
          " bytes, must be ", bytes);
  return {map(path, file, bytes, protection), bytes};
}

PageMapping PageMapping::open(const std::string& path, std::size_t bytes) {
  return open(path, bytes, O_RDONLY, PROT_READ);
}

PageMapping PageMapping::open_to_write(const std::string& path, std::size_t bytes) {
  return open(path, bytes, O_RDWR, PROT_READ | PROT_WRITE);
}

PageMapping& PageMapping::operator=(PageMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PageMapping::~PageMapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace trireme::observe
