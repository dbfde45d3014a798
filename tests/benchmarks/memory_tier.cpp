// What a snapshot in memory costs, per GiB of a rank: how long it holds the step (the copy into a
// slot of /dev/shm, with checksums), beside the plain copy by as many threads, which is the floor;
// and how long a rank takes to read it back, every block verified, beside the same shard on a disk
// (from its cache too where it fits: drop the caches of the machine to see the disk). Medians over
// rounds that alternate.
//   build/release/bin/memory_tier [directory on a disk, default /tmp] [MiB of state, 512]
//       [threads, 2] [rounds, 7]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/read/reader.h"
#include "runtime/store/tiers/slots.h"
#include "runtime/store/write/snapshot.h"
#include "tests/benchmarks/timing.h"

namespace trireme {
namespace {

constexpr Index mib = Index{1} << 20;

/// Weights and moments of a rank, as tensors of 4 MiB.
FileLayout lay_out(const Buffer& state) {
  std::vector<Piece> pieces;
  constexpr Index count = mib;  // elements
  for (Index at = 0; at + 4 * count <= state.bytes(); at += 4 * count)
    pieces.push_back({fmt::format("parameters/layer.{:06}", at / (4 * count)),
                      DType::f32,
                      {count},
                      Box{{0}, {count}},
                      state.data() + at});
  return lay_out_shard(std::move(pieces));
}

class Benchmark {
 public:
  Benchmark(std::string disk, Index state_mib, int threads)
      : disk_(std::move(disk)),
        pool_(threads),
        state_(allocate_host(state_mib * mib)),
        back_(allocate_host(state_mib * mib)),
        layout_(lay_out(state_)),
        slots_(store::snapshot_directory(fmt::format("benchmark-{}", ::getpid())), 0,
               layout_.bytes),
        snapshot_(layout_, block_bytes) {}
  ~Benchmark() {
    std::remove(shard().c_str());
    store::remove_snapshots(slots_.directory());
  }
  Benchmark(const Benchmark&) = delete;
  Benchmark& operator=(const Benchmark&) = delete;

  int run(int rounds) {
    prepare();
    fmt::print("# {} MiB of state, {} threads; ms per GiB\n", layout_.bytes / mib, pool_.threads());
    fmt::print("#{:>9} {:>9} {:>9} {:>12} {:>12}\n", "memcpy", "snapshot", "ratio", "from memory",
               "from disk");
    std::vector<double> copies, saves, ratios, memory, disk;
    bool right = true;
    for (int i = 0; i < rounds; ++i) {
      copies.push_back(per_gib([&] { copy(); }));
      saves.push_back(per_gib([&] { save(i % store::Slots::count); }));
      ratios.push_back(saves.back() / copies.back());
      memory.push_back(per_gib([&] { read(slots_.directory(), slots_.shard(0)); }));
      right = right && is_right();
      disk.push_back(per_gib([&] { read(disk_, name); }));
      right = right && is_right();
    }
    fmt::print("{:10.1f} {:9.1f} {:9.2f} {:12.1f} {:12.1f}{}\n", median(copies), median(saves),
               median(ratios), median(memory), median(disk), right ? "" : " WRONG BITS");
    return right ? 0 : 1;
  }

 private:
  static constexpr const char* name = "memory_tier.bench";
  std::string shard() const { return disk_ + "/" + name; }

  /// The destructor removes what it makes, also where it fails.
  void prepare() {
    std::memset(state_.data(), 0x5a, static_cast<std::size_t>(state_.bytes()));
    std::memset(back_.data(), 0, static_cast<std::size_t>(back_.bytes()));
    slots_.reserve();
    snapshot_.save(slots_.memory(0), pool_);
    std::remove(shard().c_str());
    write_whole(shard(), {reinterpret_cast<const char*>(slots_.memory(0)),
                          static_cast<std::size_t>(layout_.bytes)});
  }
  double per_gib(const std::function<void()>& call) const {
    return ms_of(call) * 1024 * static_cast<double>(mib) / static_cast<double>(layout_.bytes);
  }
  void copy() {
    pool_.parallel_for(back_.bytes(), mib, [&](Index begin, Index end) {
      std::memcpy(back_.data() + begin, state_.data() + begin,
                  static_cast<std::size_t>(end - begin));
    });
  }
  void save(int slot) {
    slots_.begin(slot);
    snapshot_.save(slots_.memory(slot), pool_);
    require(snapshot_.report().error.empty(), snapshot_.report().error);
    slots_.finish(slot, {1, "benchmark", 0, 1, {}, snapshot_.report().blocks});
    slots_.confirm(slot);
  }
  void read(const std::string& directory, const std::string& file) {
    Manifest manifest;
    manifest.files.push_back({file, layout_.bytes, snapshot_.report().blocks});
    std::vector<Wanted> wanted;
    for (const Piece& piece : layout_.pieces) {
      manifest.tensors.push_back(
          {piece.tensor, piece.dtype, piece.global, {{0, piece.offset, piece.box}}});
      const Index at = static_cast<const std::byte*>(piece.data) - state_.data();
      wanted.push_back({piece.tensor, piece.dtype, piece.global, piece.box, back_.data() + at});
    }
    read_boxes(directory, manifest, wanted, pool_.threads());
  }
  /// What was read; it is then spoilt for the next reading.
  bool is_right() {
    const auto bytes = static_cast<std::size_t>(state_.bytes());
    const bool right = std::memcmp(back_.data(), state_.data(), bytes) == 0;
    std::memset(back_.data(), 0, bytes);
    return right;
  }

  std::string disk_;
  ThreadPool pool_;
  Buffer state_, back_;
  FileLayout layout_;
  store::Slots slots_;
  Snapshot snapshot_;
};

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) {
  const auto number = [&](int i, int standard) {
    if (count <= i) return standard;
    const int given = std::atoi(arguments[i]);
    trireme::require(given > 0, '\'', arguments[i], "': a whole number from 1 is needed");
    return given;
  };
  try {
    const int mib = number(2, 512);
    trireme::require(mib % 4 == 0, mib, " MiB of state: a multiple of 4 is needed");
    trireme::Benchmark benchmark(count > 1 ? arguments[1] : "/tmp", mib, number(3, 2));
    return benchmark.run(number(4, 7));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
