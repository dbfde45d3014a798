#include "runtime/data/data_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::data {

DataFile::Descriptor::~Descriptor() {
  if (number >= 0) ::close(number);
}

DataFile::DataFile(const std::string& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  require_call(file_.number >= 0, path, ": cannot be opened");  // waits for no pipe
  struct stat status {};
  require_call(::fstat(file_.number, &status) == 0, path);
  require(S_ISREG(status.st_mode), path, ": is not a regular file");
  bytes_ = status.st_size;
}

void DataFile::read(Index offset, void* out, Index count) const {
  for (Index done = 0; done < count;) {
    const ssize_t got = ::pread(file_.number, static_cast<char*>(out) + done,
                                static_cast<std::size_t>(count - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    const char* const reason = got < 0 ? std::strerror(errno) : "";
    require(got > 0, path_, ": the data changed or its file system went away: byte ", offset + done,
            " of ", bytes_, got < 0 ? " cannot be read: " : " is not there any more", reason);
    done += got;
  }
}

}  // namespace trireme::data
