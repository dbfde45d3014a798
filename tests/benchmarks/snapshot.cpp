// What a save costs: the stall next to a plain memcpy of the state by as many threads, the rate
// until the file is durable, and the rate of reading it back with every block verified. Medians
// over rounds that alternate.
//   build/release/bin/snapshot [directory, default /tmp] [MiB of state, 1536] [threads, 4]
//       [rounds, 5] [MiB of ring, 0: all]
// To compare, in the same minute and directory (twice, so that its blocks are warm too):
//   fio --name=x --filename=DIR/x --size=1536m --rw=write --bs=8m --direct=1 --ioengine=libaio
//       --iodepth=8 --end_fsync=1
//   fio --name=x --filename=DIR/x --size=1536m --rw=read --bs=8m --direct=1 --ioengine=libaio
//       --iodepth=8
#include "runtime/store/write/snapshot.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/read/reader.h"
#include "tests/benchmarks/timing.h"

namespace trireme {
namespace {

constexpr Index mib = Index{1} << 20;

/// Weights and two moments of a model: matrices of 4 MiB, and a small vector after each.
class Benchmark {
 public:
  Benchmark(std::string directory, Index state_mib, int threads, Index ring_mib)
      : directory_(std::move(directory)), pool_(threads), state_(allocate_host(state_mib * mib)) {
    constexpr Index matrix = mib, vector = 1000;  // elements
    std::memset(state_.data(), 0x5a, static_cast<std::size_t>(state_.bytes()));
    std::vector<Piece> pieces;
    Index used = 0;
    for (int i = 0; used + 4 * matrix <= state_.bytes(); ++i)
      for (const Index count : {i % 2 == 0 ? matrix : matrix - vector, i % 2 == 0 ? 0 : vector}) {
        if (count == 0) continue;
        pieces.push_back({fmt::format("parameters/layer.{}.{}", i, count),
                          DType::f32,
                          {count},
                          Box{{0}, {count}},
                          state_.data() + used});
        used += 4 * count;
      }
    layout_ = lay_out_shard(std::move(pieces));
    copy_ = allocate_host(used);
    std::memset(copy_.data(), 0, static_cast<std::size_t>(used));
    snapshot_ = std::make_unique<Snapshot>(layout_, ring_mib * mib);
  }

  int run(int rounds) {
    fmt::print("# {:.1f} MiB in {} pieces, ring {} MiB, {} threads, {}\n", mib_of(layout_.bytes),
               layout_.pieces.size(), snapshot_->buffer_bytes() / mib, pool_.threads(), directory_);
    fmt::print("#{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7}\n", "memcpy", "stall", "ratio",
               "durable", "write", "read", "direct", "#wrong");
    fmt::print("#{:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "(ms)", "(ms)", "", "(ms)", "(MiB/s)",
               "(MiB/s)");
    std::vector<double> copies, stalls, ratios, durables, writes, reads;
    int wrong = 0;
    for (int i = 0; i < rounds; ++i) {
      copies.push_back(ms_of([&] { copy(); }));
      durables.push_back(ms_of([&] { save(); }));
      reads.push_back(1000 * mib_of(layout_.bytes) / ms_of([&] { read(); }));
      wrong +=
          std::memcmp(copy_.data(), state_.data(), static_cast<std::size_t>(copy_.bytes())) != 0;
      stalls.push_back(snapshot_->report().stall_ms);
      ratios.push_back(stalls.back() / copies.back());
      writes.push_back(1000 * mib_of(layout_.bytes) / durables.back());
      print_row(copies.back(), stalls.back(), ratios.back(), durables.back(), writes.back(),
                reads.back(), wrong);
    }
    fmt::print("# medians\n");
    print_row(median(copies), median(stalls), median(ratios), median(durables), median(writes),
              median(reads), wrong);
    return wrong == 0 ? 0 : 1;
  }

 private:
  static double mib_of(Index bytes) {
    return static_cast<double>(bytes) / static_cast<double>(mib);
  }

  void print_row(double copied, double stall, double ratio, double durable, double write,
                 double read, int wrong) const {
    fmt::print("{:10.1f} {:9.1f} {:9.2f} {:9.1f} {:9.0f} {:9.0f} {:>7} {:7}\n", copied, stall,
               ratio, durable, write, read, snapshot_->report().direct ? "yes" : "no", wrong);
  }

  void copy() {
    pool_.parallel_for(copy_.bytes(), mib, [&](Index begin, Index end) {
      std::memcpy(copy_.data() + begin, state_.data() + begin,
                  static_cast<std::size_t>(end - begin));
    });
  }

  void save() {
    remove_file(path());
    snapshot_->save(path(), pool_, worker_);
    worker_.wait();
    require(snapshot_->report().error.empty(), snapshot_->report().error);
  }

  void read() {
    Manifest manifest;
    manifest.files.push_back({"snapshot.bench", layout_.bytes, snapshot_->report().blocks});
    std::vector<Wanted> wanted;
    for (const Piece& piece : layout_.pieces) {
      manifest.tensors.push_back(
          {piece.tensor, piece.dtype, piece.global, {{0, piece.offset, piece.box}}});
      const Index at = static_cast<const std::byte*>(piece.data) - state_.data();
      wanted.push_back({piece.tensor, piece.dtype, piece.global, piece.box, copy_.data() + at});
    }
    std::sort(manifest.tensors.begin(), manifest.tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    read_boxes(directory_, manifest, wanted, pool_.threads());
  }

  std::string path() const { return directory_ + "/snapshot.bench"; }

 public:
  ~Benchmark() { std::remove(path().c_str()); }

 private:
  std::string directory_;
  ThreadPool pool_;
  Worker worker_;
  Buffer state_, copy_;
  FileLayout layout_;
  std::unique_ptr<Snapshot> snapshot_;
};

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) {
  const auto number = [&](int i, int standard) {
    return count > i ? std::atoi(arguments[i]) : standard;
  };
  try {
    trireme::Benchmark benchmark(count > 1 ? arguments[1] : "/tmp", number(2, 1536), number(3, 4),
                                 number(5, 0));
    return benchmark.run(number(4, 5));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
