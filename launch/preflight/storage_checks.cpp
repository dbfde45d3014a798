#include "launch/preflight/storage_checks.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "runtime/core/seconds_since.h"
#include "runtime/store/checksum.h"
#include "runtime/store/file.h"
#include "runtime/store/write/held_path.h"

namespace trireme::preflight {
namespace {

namespace fs = std::filesystem;
constexpr double longest_s = 10;  // of writing, and of reading

/// A directory for files, removed with them in any case.
struct Scratch {
  Scratch(const std::string& directory, const std::string& host)
      : held(HeldPath::Kind::private_directory, directory + "/.trireme-preflight-" + host + "-",
             "") {}
  std::string file(const char* name) const { return held.path() + "/" + name; }
  HeldPath held;
};

}  // namespace

std::string existing_part_of(const std::string& directory) {
  fs::path path = fs::absolute(directory);
  while (!fs::is_directory(path) && path.has_parent_path() && path != path.parent_path())
    path = path.parent_path();
  return path.string();
}

double commit_seconds(const std::string& directory, const std::string& host) {
  const std::string where = existing_part_of(directory);
  const Scratch scratch(where, host);
  const std::string file = scratch.file("file"), renamed = scratch.file("renamed");
  constexpr int times = 3;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const double began = steady_seconds();
    write_whole(file, "trireme preflight\n");
    rename_path(file, renamed);
    sync_directory(scratch.held.path());
    best = std::min(best, seconds_since(began));
    remove_file(renamed);
  }
  return best;
}

DiskSpeed measure_disk(const std::string& directory, const std::string& host) {
  constexpr Index bytes = Index{64} << 20, part = Index{4} << 20;
  const Scratch scratch(directory, host + "-speed");
  const std::string path = scratch.file("file");
  const Buffer data = allocate_host(part);
  for (Index i = 0; i < part; ++i) data.data()[i] = static_cast<std::byte>((i * 31) >> 3);
  const Checksum expected = checksum(data.data(), part);
  DiskSpeed speed;
  constexpr double mb = 1e6;
  Index written = 0;
  {
    File file = File::create(path, Caching::direct);
    const double began = steady_seconds();
    for (; written < bytes && (written == 0 || seconds_since(began) < longest_s); written += part)
      file.write_at(written, data.data(), part);
    file.sync();
    file.close();
    speed.write_mb_per_s = static_cast<double>(written) / mb / seconds_since(began);
  }
  const File file = File::open(path, Caching::direct);
  const double began = steady_seconds();
  Index at = 0;
  for (; at < written && (at == 0 || seconds_since(began) < longest_s); at += part) {
    std::memset(data.data(), 0, static_cast<std::size_t>(part));
    require(file.read_at(at, data.data(), part) == part && checksum(data.data(), part) == expected,
            path, ": other bytes are read than were written");
  }
  speed.read_mb_per_s = static_cast<double>(at) / mb / seconds_since(began);
  return speed;
}

}  // namespace trireme::preflight
