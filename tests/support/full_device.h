// A device on which there is no space, as /dev/full. Root's is a node in a directory of the test: a
// program that is broken and replaces what it should write to then harms no other.
#pragma once

#include <string>

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/support/scratch_directory.h"

namespace trireme {

inline std::string full_device(const std::string& path) {
  if (::geteuid() != 0) return "/dev/full";
  if (::mknod(path.c_str(), S_IFCHR | 0666, ::makedev(1, 7)) != 0)
    throw std::runtime_error("no device can be made at " + path);
  return path;
}

}  // namespace trireme
