#include "runtime/data/mapped_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme {

namespace {
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};
}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  require(file.fd >= 0, path, ": cannot be opened: ", std::strerror(errno));
  struct stat status {};
  require(::fstat(file.fd, &status) == 0, path, ": ", std::strerror(errno));
  require(S_ISREG(status.st_mode), path, ": is not a regular file");
  bytes_ = status.st_size;
  if (bytes_ == 0) return;  // an empty file cannot be mapped
  void* data = ::mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ, MAP_SHARED, file.fd, 0);
  require(data != MAP_FAILED, path, ": cannot be mapped: ", std::strerror(errno));
  data_ = static_cast<std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(bytes_));
}

}  // namespace trireme
