// Scratch files: where there is space for them, and which of their pages were written.
#include "runtime/store/hdf5/scratch_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::hdf5 {

namespace {

constexpr Index read_bytes = 4096;

[[noreturn]] void fail(const char* call, const std::string& path) {
  const int reason = errno;
  throw Error(str(call, " of the scratch file ", path, " failed: ", std::strerror(reason)));
}

// Why `bytes` cannot be written to `directory`; "" when they can.
std::string lack_of_room(const std::string& directory, Index bytes) {
  struct statvfs status = {};
  if (statvfs(directory.c_str(), &status) != 0) return std::strerror(errno);
  const Index free = static_cast<Index>(status.f_bavail) * static_cast<Index>(status.f_frsize);
  return free >= bytes ? "" : str(free, " bytes are free");
}

}  // namespace

std::vector<std::string> scratch_directories() { return {"/dev/shm", P_tmpdir, "/var/tmp"}; }

ScratchFile::ScratchFile(Index bytes, const std::vector<std::string>& directories) {
  std::string reasons;
  for (const std::string& directory : directories) {
    std::string reason = lack_of_room(directory, bytes);
    if (reason.empty()) {
      path_ = directory + "/trireme-layout-XXXXXX";
      descriptor_ = mkostemp(path_.data(), O_CLOEXEC);
      if (descriptor_ >= 0) return;
      reason = std::strerror(errno);
    }
    reasons += str("; ", directory, ": ", reason);
  }
  throw Error(str("no directory takes a scratch file of ", bytes, " bytes", reasons));
}

ScratchFile::~ScratchFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

void ScratchFile::unlink() {
  if (::unlink(path_.c_str()) != 0) fail("unlink", path_);
  path_.clear();
}

Index ScratchFile::size() const {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) fail("fstat", path_);
  return status.st_size;
}

// -1 behind the last data.
Index ScratchFile::seek(Index offset, int whence) const {
  const Index found = lseek(descriptor_, offset, whence);
  if (found < 0 && errno != ENXIO) fail("lseek", path_);
  return found;
}

std::vector<FileLayout::Run> ScratchFile::contents() const {
  std::vector<FileLayout::Run> runs;
  for (Index hole = 0;;) {
    const Index data = seek(hole, SEEK_DATA);
    if (data < 0) return runs;
    hole = seek(data, SEEK_HOLE);
    collect(data, hole, runs);
  }
}

// File systems may report pages as data that were never written, so zero pages are left out here.
void ScratchFile::collect(Index begin, Index end, std::vector<FileLayout::Run>& runs) const {
  std::byte page[read_bytes];
  for (Index at = begin; at < end;) {
    const Index wanted = std::min(read_bytes - at % read_bytes, end - at);
    const Index count = pread(descriptor_, page, static_cast<std::size_t>(wanted), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("pread", path_);
    require(count > 0, "the scratch file ends at ", at, " instead of ", end);
    if (std::any_of(page, page + count, [](std::byte b) { return b != std::byte{0}; })) {
      const bool joins =
          !runs.empty() && runs.back().offset + static_cast<Index>(runs.back().bytes.size()) == at;
      if (!joins) runs.push_back({at, {}});
      runs.back().bytes.insert(runs.back().bytes.end(), page, page + count);
    }
    at += count;
  }
}

}  // namespace trireme::hdf5
