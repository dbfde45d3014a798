// SmallDisk: a real file system of a few megabytes, to be filled. It is mounted where this process
// and its children see it only. Needs the right to mount (what CMake finds out:
// TRIREME_SIMULATED_NODES).
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme::test {

class SmallDisk {
 public:
  /// Mounts an empty disk at `path`, which is made.
  SmallDisk(const std::string& path, Index bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  /// Makes a file that leaves `bytes` free.
  void fill_up_to(Index bytes) const;
  void make_space() const;
  void make_read_only() const;

 private:
  std::string path_;
};

}  // namespace trireme::test
