#include "launch/preflight/node_checks.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"
#include "trireme/core/version.h"
#include "trireme/kernels/device.h"

#include "launch/preflight/device_checks.h"
#include "runtime/core/require_call.h"
#include "runtime/core/seconds_since.h"
#include "runtime/store/checksum.h"
#include "runtime/store/file.h"
#include "runtime/store/write/held_path.h"

namespace trireme::preflight {
namespace {

// Whether a directory takes what a checkpoint needs, and how fast it is.

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

constexpr double mib = 1 << 20;

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

/// Of the libraries of trireme that this process has loaded.
std::string program_hash() {
  constexpr Index most_bytes = Index{1} << 30;
  std::set<std::string> libraries;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (const std::size_t path = line.find('/'); path != std::string::npos)
      if (line.find("/libtrireme", path) != std::string::npos) libraries.insert(line.substr(path));
  std::string all;
  for (const std::string& library : libraries) {
    const std::string bytes = read_whole(library, most_bytes);
    all += to_text(checksum(bytes.data(), std::ssize(bytes)));
  }
  return to_text(checksum(all.data(), std::ssize(all)));
}

void system_facts(Node& node) {
  utsname name{};
  if (::uname(&name) == 0) node.facts["kernel"] = name.release;
  node.facts["version"] = version();
  node.facts["program"] = program_hash();
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  node.facts["memlock"] = unlimited ? "unlimited" : std::to_string(limit.rlim_cur);
  constexpr rlim_t enough = 64 << 20;
  std::error_code missing;
  if (!unlimited && limit.rlim_cur < enough &&
      std::filesystem::exists("/sys/class/infiniband", missing) &&
      !std::filesystem::is_empty("/sys/class/infiniband", missing))
    node.warnings.push_back(
        fmt::format("memlock is {} bytes: InfiniBand needs locked memory (ulimit -l unlimited)",
                    limit.rlim_cur));
}

void shared_memory(Node& node) {
  struct statvfs info {};
  require_call(::statvfs("/dev/shm", &info) == 0, "statvfs");
  const double free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize) / mib;
  node.figures["shm_free_mib"] = free;
  constexpr double little = 65;  // what containers give by default is 64
  if (free < little)
    node.warnings.push_back(fmt::format(
        "/dev/shm has {:.0f} MiB free: ranks of one node exchange without it, and more slowly",
        free));
}

void ports() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require_call(socket >= 0, "socket");
  sockaddr_in any{};
  any.sin_family = AF_INET;
  const bool works = ::bind(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 &&
                     ::listen(socket, 1) == 0;
  const int reason = errno;
  ::close(socket);
  require(works, "a port cannot be opened: ", std::strerror(reason));
}

/// Each word of 64 MiB holds its own number, then the inverse.
void memory_test() {
  constexpr std::size_t words = (std::size_t{64} << 20) / sizeof(std::uint64_t);
  std::vector<std::uint64_t> memory(words);
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  for (const std::uint64_t mask : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    for (std::size_t i = 0; i < words; ++i) memory[i] = (i * odd) ^ mask;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < words; ++i) wrong += memory[i] == ((i * odd) ^ mask) ? 0U : 1U;
    require(wrong == 0, wrong, " of ", words, " words changed in memory");
  }
}

void steady_products(Node& node, Stream& stream, double seconds) {
  constexpr Index size = 512;
  const SteadyProducts products = run_products(stream, size, DType::f32, seconds);
  node.facts["product"] = products.bits;
  if (seconds > 0) node.figures["steady_gemm_gflops"] = products.gflops;
}

}  // namespace

void guarded(Node& node, const Checks& checks, std::string_view what,
             const std::function<void()>& check) {
  checks.begins(what);
  try {
    check();
  } catch (const std::exception& error) {
    node.faults.push_back(str(what, ": ", error.what()));
  }
}

void measure_speed(Node& node, const Checks& checks) {
  const std::unique_ptr<Device> device = open_cpu({cores()});
  const std::unique_ptr<Stream> stream = device->make_stream();
  guarded(node, checks, "products", [&] {
    node.figures["gemm_gflops"] = measure_gemm_flops(*stream) / 1e9;
    steady_products(node, *stream, checks.thorough ? checks.steady_s : 0);
  });
  if (!checks.thorough) {
    guarded(node, checks, "GPUs", [&] { measure_gpus(node); });
    return;
  }
  guarded(node, checks, "memory", [&] {
    node.figures["copy_gb_per_s"] = measure_copy_rate(*stream) / 1e9;
    node.figures["fma_gflops"] = measure_peak_flops() / 1e9;
  });
  guarded(node, checks, "training steps", [&] {
    const std::unique_ptr<Mesh> alone = make_self_mesh();
    node.facts["training"] = bits_of_training(*alone, *stream, {*alone, *stream});
  });
  guarded(node, checks, "scratch directory", [&] {
    const char* scratch = std::getenv("TMPDIR");
    const DiskSpeed speed =
        measure_disk(scratch == nullptr || *scratch == '\0' ? "/tmp" : scratch, node.host);
    node.figures["disk_write_mb_per_s"] = speed.write_mb_per_s;
    node.figures["disk_read_mb_per_s"] = speed.read_mb_per_s;
  });
}

Node check_node(const std::string& host, const Checks& checks) {
  Node node;
  node.host = host;
  node.kind = fmt::format("{}, {} cores", processor(), cores());
  guarded(node, checks, "system", [&] { system_facts(node); });
  guarded(node, checks, "/dev/shm", [&] { shared_memory(node); });
  guarded(node, checks, "ports", ports);
  guarded(node, checks, "memory", memory_test);
  guarded(node, checks, "GPUs", [&] { check_gpus(node); });
  if (!checks.run_dir.empty())
    guarded(node, checks, "run directory", [&] {
      node.figures["rename_sync_ms"] = 1e3 * commit_seconds(checks.run_dir, host);
      if (!checks.thorough) return;
      const DiskSpeed speed = measure_disk(existing_part_of(checks.run_dir), host);
      node.figures["run_write_mb_per_s"] = speed.write_mb_per_s;
      node.figures["run_read_mb_per_s"] = speed.read_mb_per_s;
    });
  measure_speed(node, checks);
  return node;
}

}  // namespace trireme::preflight
