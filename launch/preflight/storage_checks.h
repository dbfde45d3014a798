// Whether a directory takes what a checkpoint needs, and how fast it is.
#pragma once

#include <string>

namespace trireme::preflight {

/// The directory itself, or the nearest one above it: a run makes its own.
std::string existing_part_of(const std::string& directory);

/// Writes a small file, syncs it, renames it and syncs the directory, as the commit of a checkpoint
/// does; the shortest of three times. `host` is a part of its name. Throws: Error.
double commit_seconds(const std::string& directory, const std::string& host);

struct DiskSpeed {
  double write_mb_per_s = 0, read_mb_per_s = 0;  // sync included; past the cache where that goes
};
/// With 64 MiB, or what is written in 10 s, which must be the same when read again. Throws: Error.
DiskSpeed measure_disk(const std::string& directory, const std::string& host);

}  // namespace trireme::preflight
