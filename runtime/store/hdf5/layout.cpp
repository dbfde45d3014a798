// Creating groups and datasets in a scratch file.
#include "runtime/store/hdf5/layout.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"
#include "runtime/store/hdf5/dataset.h"

namespace trireme::hdf5 {

namespace {

// Datasets of a page or more begin on a page, which is best for O_DIRECT and readers.
constexpr hsize_t page_bytes = 4096;

Handle create_file(const std::string& path) {
  const Handle access = make_file_access(), properties = make_properties(H5P_FILE_CREATE);
  check(H5Pset_alignment(access.id(), page_bytes, page_bytes), "H5Pset_alignment", path);
  return Handle(check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, properties.id(), access.id()),
                      "H5Fcreate", path),
                H5Fclose);
}

}  // namespace

void require_file_size(Index bytes) {
  rlimit limit = {};
  require_call(::getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit");
  require(limit.rlim_cur == RLIM_INFINITY || static_cast<rlim_t>(bytes) <= limit.rlim_cur,
          "a file of up to ", bytes, " bytes is needed, and this process may write ",
          limit.rlim_cur, " (ulimit -f)");
}

Handle make_properties(hid_t kind) {
  const char* subject = "creation properties";
  Handle properties(check(H5Pcreate(kind), "H5Pcreate", subject), H5Pclose);
  check(H5Pset_obj_track_times(properties.id(), false), "H5Pset_obj_track_times", subject);
  return properties;
}

LayoutFile::LayoutFile(Index metadata_bytes)
    : scratch_(metadata_bytes),
      group_properties_(make_properties(H5P_GROUP_CREATE)),
      file_(create_file(scratch_.path())) {
  scratch_.unlink();
}

// HDF5 would create them automatically, but with the time of creation in them.
void LayoutFile::create_groups(const std::string& path) {
  for (auto end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string group = path.substr(0, end);
    if (!groups_.insert(group).second) continue;
    Handle(check(H5Gcreate2(file_.id(), group.c_str(), H5P_DEFAULT, group_properties_.id(),
                            H5P_DEFAULT),
                 "H5Gcreate2", group),
           H5Gclose);
  }
}

Handle LayoutFile::create_dataset(const std::string& path, DType dtype, const Shape& shape,
                                  const Handle& properties) {
  create_groups(path);
  const Handle type = make_type(dtype), space = make_space(shape);
  return Handle(check(H5Dcreate2(file_.id(), path.c_str(), type.id(), space.id(), H5P_DEFAULT,
                                 properties.id(), H5P_DEFAULT),
                      "H5Dcreate2", path),
                H5Dclose);
}

FileLayout LayoutFile::finish() {
  file_.close("H5Fclose", "the layout of a file");
  FileLayout layout;
  layout.bytes = scratch_.size();
  layout.structure = scratch_.contents();
  return layout;
}

// Scratch files: where there is space for them, and which of their pages were written.

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
