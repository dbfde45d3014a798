#include "runtime/comm/node/shared_memory.h"

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::comm {
namespace {

/// Closes when it goes.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Index mib(Index bytes) { return (bytes + (Index{1} << 20) - 1) >> 20; }

}  // namespace

void require_shared_memory(Index bytes, int ranks) {
  struct statvfs status {};
  require_call(::statvfs("/dev/shm", &status) == 0, "there is no /dev/shm");
  const Index free = static_cast<Index>(status.f_bavail) * static_cast<Index>(status.f_bsize);
  require(bytes <= free, "/dev/shm has ", free >> 20, " MiB free but its ", ranks, " ranks need ",
          mib(bytes), " MiB (in a container: its shm size)");
}

SharedMemory SharedMemory::create(Index bytes) {
  std::random_device random;
  SharedMemory memory;
  int descriptor = -1;
  for (int attempt = 0; attempt < 16 && descriptor < 0; ++attempt) {
    memory.name_ = str("/trireme-", ::getpid(), "-", random());
    descriptor = ::shm_open(memory.name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0 && errno != EEXIST) break;
  }
  const File file(descriptor);
  if (descriptor < 0) {
    memory.name_.clear();
    throw Error(str("no shared memory can be made in /dev/shm: ", std::strerror(errno)));
  }
  const int failed = ::posix_fallocate(file.get(), 0, bytes);  // on a tmpfs this reserves the pages
  require(failed == 0, "/dev/shm has no space for ", mib(bytes), " MiB more (",
          std::strerror(failed), ")");
  memory.map(file.get(), bytes);
  return memory;
}

SharedMemory SharedMemory::open(const std::string& name, Index bytes) {
  const File file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  require_call(file.get() >= 0, "the shared memory ", name, " of another rank cannot be opened");
  SharedMemory memory;
  memory.map(file.get(), bytes);
  return memory;
}

void SharedMemory::map(int file, Index bytes) {
  void* data =
      ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  require_call(data != MAP_FAILED, "cannot map ", bytes, " bytes of shared memory");
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  hide();
  if (data_) ::munmap(data_, static_cast<std::size_t>(bytes_));
}

void SharedMemory::hide() {
  if (!name_.empty()) ::shm_unlink(name_.c_str());
  name_.clear();
}

Index SharedPeerMemory::add(std::vector<Part> parts, std::size_t mine) {
  const SharedMemory& own = parts[mine].memory;
  const std::byte* begin = own.data();
  const Index bytes = own.bytes();
  segments_.push_back({std::move(parts), begin, bytes});
  return static_cast<Index>(segments_.size()) - 1;
}

void SharedPeerMemory::drop(Index segment) { segments_[static_cast<std::size_t>(segment)] = {}; }

PeerAddress SharedPeerMemory::find(const void* data, Index bytes) const {
  if (bytes == 0) return {PeerAddress::same_process, 0};  // nothing will be read or written
  const auto* begin = static_cast<const std::byte*>(data);
  for (std::size_t s = 0; s < segments_.size(); ++s)
    if (begin >= segments_[s].begin && begin + bytes <= segments_[s].begin + segments_[s].bytes)
      return {static_cast<Index>(s), begin - segments_[s].begin};
  return {};
}

std::byte* SharedPeerMemory::locate(int peer, PeerAddress address) const {
  if (address.segment == PeerAddress::same_process) return nullptr;
  for (const Part& part : segments_[static_cast<std::size_t>(address.segment)].parts)
    if (part.world_rank == peer) return part.memory.data() + address.offset;
  throw Error(str("rank ", peer, " has no part in shared segment ", address.segment));
}

}  // namespace trireme::comm
