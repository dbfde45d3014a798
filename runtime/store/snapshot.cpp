// The caller's threads compose blocks into the ring while the worker writes runs of them. A failure on either side stops
// the other through the ring.
#include "trireme/store/snapshot.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/store/file.h"

#include "runtime/store/block_ring.h"
#include "runtime/store/image.h"

namespace trireme {

namespace {

using Clock = std::chrono::steady_clock;

constexpr Index run_blocks = 8;  // of one write
constexpr Index least_slots = 2;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

Index aligned(Index bytes) {
  return (bytes + File::direct_alignment - 1) / File::direct_alignment * File::direct_alignment;
}

}  // namespace

struct Snapshot::State {
  Image image;
  BlockRing ring;
  Index
      most_written;  // blocks of one write: at most half of the ring, so that copying goes on beside it
  std::string path;
  SnapshotReport report;
  std::vector<std::vector<Bytes>> parts;  // workspace of each thread
  std::mutex mutex;
  std::condition_variable done;
  bool writing = false;  // guarded by mutex: the worker uses this object

  State(FileLayout layout, const std::vector<Bytes>& pieces, Index wanted_bytes)
      : image(std::move(layout), pieces),
        ring(buffer_bytes(image.bytes(), wanted_bytes) / block_bytes),
        most_written(std::clamp(ring.bytes() / block_bytes / 2, Index{1}, run_blocks)) {
    report.blocks.resize(static_cast<std::size_t>(image.blocks()));
  }

  void begin(const std::string& to, int threads) {
    path = to;
    report.bytes = image.bytes();
    report.stall_ms = report.write_ms = 0;
    report.direct = report.reserved = false;
    report.error.clear();
    while (static_cast<int>(parts.size()) < threads)
      parts.emplace_back().reserve(static_cast<std::size_t>(image.most_parts()));
    ring.begin(image.blocks());
    set_writing(true);
  }

  void set_writing(bool now) {
    const std::lock_guard lock(mutex);
    writing = now;
    done.notify_all();
  }

  void compose(std::vector<Bytes>& workspace) {
    for (;;) {
      const BlockRing::Slot slot = ring.claim();
      if (slot.data == nullptr) return;
      image.collect(slot.block, workspace);
      report.blocks[static_cast<std::size_t>(slot.block)] = copy_and_checksum(workspace, slot.data);
      const Index bytes = image.bytes_of(slot.block);
      std::memset(slot.data + bytes, 0, static_cast<std::size_t>(aligned(bytes) - bytes));
      ring.fill(slot.block);
    }
  }

  void write() {
    const auto begin = Clock::now();
    try {
      write_file();
    } catch (const std::exception& e) {
      report.error = e.what();
      ring.stop();
    }
    report.write_ms = ms_since(begin);
    set_writing(false);
  }

  void write_file() {
    File file = File::create(path, Caching::direct);
    report.reserved = file.reserve(aligned(image.bytes()));
    Index written = 0;
    for (;;) {
      const BlockRing::Run run = ring.take(most_written);
      if (run.count == 0) break;
      const Index offset = run.block * block_bytes;
      const Index bytes = std::min(run.count * block_bytes, aligned(image.bytes()) - offset);
      file.write_at(offset, run.data, bytes);
      ring.release(run);
      written += run.count;
    }
    require(written == image.blocks(), path, ": the copy was given up");
    report.direct = file.caching() == Caching::direct;
    file.truncate(image.bytes());
    file.sync();
    file.close();
  }
};

Snapshot::Snapshot(FileLayout layout, const std::vector<Bytes>& pieces, Index buffer_bytes)
    : state_(std::make_unique<State>(std::move(layout), pieces, buffer_bytes)) {}

Snapshot::~Snapshot() {
  std::unique_lock lock(state_->mutex);
  state_->done.wait(lock, [&] { return !state_->writing; });
}

Index Snapshot::buffer_bytes() const { return state_->ring.bytes(); }

Index Snapshot::buffer_bytes(Index image_bytes, Index wanted) {
  const Index image = std::max(Index{1}, blocks_of(image_bytes));
  const Index slots = wanted == 0 ? image : std::max(least_slots, blocks_of(wanted));
  return std::min(slots, image) * block_bytes;
}

void Snapshot::save(const std::string& path, ThreadPool& pool, Worker& worker) {
  const auto begin = Clock::now();
  State& s = *state_;
  require(worker.finished(), path, ": the save before is not finished");
  s.begin(path, pool.threads());
  try {
    worker.start([&s] { s.write(); });
  } catch (...) {
    s.set_writing(false);
    throw;
  }
  pool.parallel_for(pool.threads(), 1, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) s.compose(s.parts[static_cast<std::size_t>(i)]);
  });
  s.report.stall_ms = ms_since(begin);
}

const SnapshotReport& Snapshot::report() const { return state_->report; }

}  // namespace trireme
