// The caller's threads compose blocks into the ring while the worker writes runs of them. A failure
// on either side stops the other through the ring.
#include "runtime/store/write/snapshot.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "trireme/core/error.h"

#include "runtime/core/round_up.h"
#include "runtime/core/seconds_since.h"
#include "runtime/store/checksum.h"
#include "runtime/store/file.h"
#include "runtime/store/file_layout.h"
#include "runtime/store/write/block_ring.h"

namespace trireme::store {
namespace {

/// Image: the bytes of a whole file, scattered in memory (structure, pieces, zeros), block by
/// block.
class Image {
 public:
  /// The memory of the pieces is borrowed. Throws: Error when they have none, overlap, or leave the
  /// file.
  explicit Image(FileLayout layout);

  Index bytes() const { return layout_.bytes; }
  Index blocks() const { return blocks_of(layout_.bytes); }
  /// Size of block `block`, as it lies in the file.
  Index bytes_of(Index block) const;
  /// The largest number of parts of a block.
  Index most_parts() const { return most_parts_; }
  /// What block `block` consists of, front to back, in `parts`.
  void collect(Index block, std::vector<Bytes>& parts) const;

 private:
  struct Segment {
    Index offset;
    Bytes bytes;
    Index end() const { return offset + bytes.count; }
  };
  void add_pieces();
  void add_structure();

  FileLayout layout_;
  std::vector<Segment> segments_;  // ascending, not overlapping; zeros are between them
  Index most_parts_ = 0;
};

// Segments are sorted once, so that a block finds its own by binary search.

const std::byte* at(const void* data, Index offset) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + offset;
}

Image::Image(FileLayout layout) : layout_(std::move(layout)) {
  add_pieces();
  add_structure();
  std::vector<Bytes> parts;
  for (Index block = 0; block < blocks(); ++block) {
    collect(block, parts);
    most_parts_ = std::max(most_parts_, static_cast<Index>(parts.size()));
  }
}

void Image::add_pieces() {
  for (const Piece& piece : layout_.pieces) {
    if (piece.bytes() == 0) continue;
    require(piece.data != nullptr, "the piece of tensor ", piece.tensor, " at ", piece.offset,
            " has no memory to be copied from");
    segments_.push_back({piece.offset, {piece.data, piece.bytes(), piece.memory}});
  }
  std::sort(segments_.begin(), segments_.end(),
            [](const Segment& a, const Segment& b) { return a.offset < b.offset; });
  Index end = 0;
  for (const Segment& s : segments_) {
    require(s.offset >= end && s.end() <= layout_.bytes, "a piece at [", s.offset, ", ", s.end(),
            ") of a file overlaps the one before (which ends at ", end, ") or leaves the file of ",
            layout_.bytes, " bytes");
    end = s.end();
  }
}

// The bytes of a piece take precedence: only the structure between the pieces is kept.
void Image::add_structure() {
  std::vector<Segment> between;
  auto piece = segments_.cbegin();
  for (const FileLayout::Run& run : layout_.structure) {
    const Index end = run.offset + static_cast<Index>(run.bytes.size());
    require(run.offset >= 0 && end <= layout_.bytes, "structure at [", run.offset, ", ", end,
            ") leaves the file of ", layout_.bytes, " bytes");
    for (Index from = run.offset; from < end;) {
      while (piece != segments_.cend() && piece->end() <= from) ++piece;
      const bool covered = piece != segments_.cend() && piece->offset <= from;
      const Index limit = piece == segments_.cend() ? end : covered ? piece->end() : piece->offset;
      const Index to = std::min(end, limit);
      if (!covered) between.push_back({from, {at(run.bytes.data(), from - run.offset), to - from}});
      from = to;
    }
  }
  const auto middle = static_cast<std::ptrdiff_t>(segments_.size());
  segments_.insert(segments_.end(), between.begin(), between.end());
  std::inplace_merge(segments_.begin(), segments_.begin() + middle, segments_.end(),
                     [](const Segment& a, const Segment& b) { return a.offset < b.offset; });
}

Index Image::bytes_of(Index block) const {
  return std::min(block_bytes, bytes() - block * block_bytes);
}

void Image::collect(Index block, std::vector<Bytes>& parts) const {
  parts.clear();
  Index from = block * block_bytes;
  const Index end = from + bytes_of(block);
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), from,
                                  [](Index value, const Segment& s) { return value < s.end(); });
  for (; from < end; ++segment) {
    const Index begin = segment == segments_.end() ? end : std::min(end, segment->offset);
    if (begin > from) parts.push_back({nullptr, begin - from});
    if (begin == end) return;
    const Index start = std::max(from, begin), stop = std::min(end, segment->end());
    parts.push_back(
        {at(segment->bytes.data, start - segment->offset), stop - start, segment->bytes.memory});
    from = stop;
  }
}

}  // namespace
}  // namespace trireme::store

namespace trireme {

using namespace store;

namespace {

using Clock = std::chrono::steady_clock;

constexpr Index run_blocks = 8;  // of one write
constexpr Index least_slots = 2;
constexpr Index most_queued = 64;  // blocks of a device: a millisecond or more of copies

/// Host memory that a stream of `device` copies to; null: that threads copy to.
Buffer ring_memory(Index bytes, Device* device) {
  return device == nullptr ? allocate_host(bytes) : device->allocate_pinned(bytes);
}

Index aligned(Index bytes) { return round_up(bytes, File::direct_alignment); }

}  // namespace

struct Snapshot::State {
  /// Of a snapshot of a device: the blocks whose copies are queued, in the order of blocks.
  struct Copies {
    std::vector<std::unique_ptr<Event>> queued;  // by slot
    Index next = 0, end = 0;                     // blocks whose copies are queued but not seen done
  };

  Image image;
  BlockRing ring;
  Copies copies;
  Index most_written;  // blocks of one write: at most half of the ring, so that copying continues
                       // beside it
  std::function<void()> while_waiting = [] {};
  std::string path;
  std::byte* target = nullptr;  // memory in place of a file
  Clock::time_point began;
  SnapshotReport report;
  std::vector<std::vector<Bytes>> parts;  // workspace of each thread
  std::mutex mutex;
  std::condition_variable done;
  bool writing = false;  // guarded by mutex: the worker uses this object

  State(FileLayout layout, Index wanted_bytes, Device* device)
      : image(std::move(layout)),
        ring(ring_memory(buffer_bytes(image.bytes(), wanted_bytes), device)),
        most_written(std::clamp(ring.slots() / 2, Index{1}, run_blocks)) {
    report.blocks.resize(static_cast<std::size_t>(image.blocks()));
    if (device == nullptr) return;
    for (Index i = 0; i < ring.slots(); ++i) copies.queued.push_back(device->make_event());
  }
  bool of_device() const { return !copies.queued.empty(); }
  Event& queued(Index block) const {
    return *copies.queued[static_cast<std::size_t>(block % ring.slots())];
  }

  void begin(const std::string& file, std::byte* memory, int threads) {
    path = file;
    target = memory;
    report.bytes = image.bytes();
    report.stall_ms = report.copy_ms = report.write_ms = 0;
    began = Clock::now();
    report.direct = report.reserved = false;
    report.error.clear();
    while (static_cast<int>(parts.size()) < threads)
      parts.emplace_back().reserve(static_cast<std::size_t>(image.most_parts()));
    ring.begin(image.blocks());
    copies.next = copies.end = 0;
    set_writing(true);
  }

  void start(Worker& worker) {
    try {
      worker.start([this] { write(); });
    } catch (...) {
      set_writing(false);
      throw;
    }
  }

  void start_copies(const std::string& file, std::byte* memory, Stream& stream, Worker& worker) {
    require(of_device(), file, ": this snapshot is of host memory");
    require(worker.finished(), file, ": the save before is not finished");
    begin(file, memory, 1);
    start(worker);
    queue(stream);
    report.stall_ms = 1e3 * seconds_since(began);
  }

  void set_writing(bool now) {
    const std::lock_guard lock(mutex);
    writing = now;
    done.notify_all();
  }

  void compose(std::vector<Bytes>& workspace) {
    for (;;) {
      const BlockRing::Slot slot = ring.claim(while_waiting);
      if (slot.data == nullptr) return;
      image.collect(slot.block, workspace);
      report.blocks[static_cast<std::size_t>(slot.block)] = copy_and_checksum(workspace, slot.data);
      pad(slot);
      ring.fill(slot.block);
    }
  }
  void compose_in_memory(Index block, std::vector<Bytes>& workspace) {
    image.collect(block, workspace);
    report.blocks[static_cast<std::size_t>(block)] =
        copy_and_checksum(workspace, target + block * block_bytes);
  }
  /// What O_DIRECT writes behind the end of the file, before it is cut off.
  void pad(const BlockRing::Slot& slot) const {
    const Index bytes = image.bytes_of(slot.block);
    std::memset(slot.data + bytes, 0, static_cast<std::size_t>(aligned(bytes) - bytes));
  }

  /// Queues the copies of blocks that have a slot. Their number is limited, because a full stream
  /// blocks the host. Memory of the host is copied at once, by the host: the slot belongs to this
  /// thread until the block is handed over, and on the stream the copy would wait for all earlier
  /// ones.
  void queue(Stream& stream) {
    while (copies.end - copies.next < most_queued) {
      const BlockRing::Slot slot = ring.try_claim();
      if (slot.data == nullptr) return;
      image.collect(slot.block, parts.front());
      std::byte* to = slot.data;
      for (const Bytes& part : parts.front()) {
        const auto count = static_cast<std::size_t>(part.count);
        if (part.data == nullptr)
          std::memset(to, 0, count);
        else if (part.memory == MemoryOf::host)
          std::memcpy(to, part.data, count);
        else
          stream.copy(to, part.data, part.count);
        to += part.count;
      }
      pad(slot);
      queued(slot.block).record(stream);
      copies.end = slot.block + 1;
    }
  }
  /// Hands over the blocks that have arrived.
  void hand_over() {
    for (; copies.next < copies.end && queued(copies.next).reached(); ++copies.next)
      ring.fill(copies.next);
  }

  void write() {
    const auto begin = Clock::now();
    try {
      target == nullptr ? write_file() : write_memory();
    } catch (const std::exception& e) {
      report.error = e.what();
      ring.stop();
    }
    report.write_ms = 1e3 * seconds_since(begin);
    set_writing(false);
  }

  /// Of a device, whose copies arrive in the ring.
  void write_memory() {
    Index written = 0;
    for (;;) {
      const BlockRing::Run run = ring.take(1);
      if (run.count == 0) break;
      const Bytes block{run.data, image.bytes_of(run.block)};
      report.blocks[static_cast<std::size_t>(run.block)] =
          copy_and_checksum({&block, 1}, target + run.block * block_bytes);
      ring.release(run);
      ++written;
    }
    require(written == image.blocks(), "the copy of a snapshot in memory was given up");
  }

  void write_file() {
    File file = File::create(path, Caching::direct);
    report.reserved = file.reserve(aligned(image.bytes()));
    Index written = 0;
    for (;;) {
      const BlockRing::Run run = ring.take(most_written);
      if (run.count == 0) break;
      if (of_device())
        for (Index i = 0; i < run.count; ++i)
          report.blocks[static_cast<std::size_t>(run.block + i)] =
              checksum(run.data + i * block_bytes, image.bytes_of(run.block + i));
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

Snapshot::Snapshot(FileLayout layout, Index buffer_bytes)
    : state_(std::make_unique<State>(std::move(layout), buffer_bytes, nullptr)) {}

Snapshot::Snapshot(FileLayout layout, Index buffer_bytes, Device& device)
    : state_(std::make_unique<State>(std::move(layout), buffer_bytes, &device)) {}

Snapshot::~Snapshot() {
  // Copies of a device that will never be handed over: the writer must not wait for them.
  if (state_->of_device() && state_->copies.next < state_->image.blocks()) state_->ring.stop();
  std::unique_lock lock(state_->mutex);
  state_->done.wait(lock, [&] { return !state_->writing; });
}

void Snapshot::while_waiting(std::function<void()> f) { state_->while_waiting = std::move(f); }

Index Snapshot::buffer_bytes() const { return state_->ring.bytes(); }

Index Snapshot::buffer_bytes(Index image_bytes, Index wanted) {
  const Index image = std::max(Index{1}, blocks_of(image_bytes));
  const Index slots = wanted == 0 ? image : std::max(least_slots, blocks_of(wanted));
  return std::min(slots, image) * block_bytes;
}

void Snapshot::save(const std::string& path, ThreadPool& pool, Worker& worker) {
  State& s = *state_;
  require(worker.finished(), path, ": the save before is not finished");
  s.begin(path, nullptr, pool.threads());
  s.start(worker);
  pool.parallel_for(pool.threads(), 1, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) s.compose(s.parts[static_cast<std::size_t>(i)]);
  });
  s.report.stall_ms = s.report.copy_ms = 1e3 * seconds_since(s.began);
}

void Snapshot::save(std::byte* to, ThreadPool& pool) {
  State& s = *state_;
  require(!s.of_device(), "this snapshot is of memory of a device");
  s.begin("", to, pool.threads());
  s.set_writing(false);
  std::atomic<Index> next{0};
  pool.parallel_for(pool.threads(), 1, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for (Index b; (b = next++) < s.image.blocks();)
        s.compose_in_memory(b, s.parts[static_cast<std::size_t>(i)]);
  });
  s.report.stall_ms = s.report.copy_ms = 1e3 * seconds_since(s.began);
}

void Snapshot::start_saving(const std::string& path, Stream& copies, Worker& worker) {
  state_->start_copies(path, nullptr, copies, worker);
}

void Snapshot::start_saving(std::byte* to, Stream& copies, Worker& worker) {
  state_->start_copies("", to, copies, worker);
}

bool Snapshot::move_on(Stream& copies) {
  State& s = *state_;
  if (!s.of_device() || s.copies.next == s.image.blocks()) return true;
  s.hand_over();
  s.queue(copies);
  const bool done = s.copies.next == s.image.blocks();
  if (done) s.report.copy_ms = 1e3 * seconds_since(s.began);
  return done;
}

void Snapshot::finish_copying(Stream& copies) {
  const auto begin = Clock::now();
  State& s = *state_;
  while (s.of_device() && s.copies.end < s.image.blocks() && !s.ring.stopped()) {
    // synchronize() polls communication while it waits. The ring is full only until the disk has
    // written a block.
    if (s.copies.next < s.copies.end) s.queued(s.copies.next).synchronize();
    move_on(copies);
    s.while_waiting();
    std::this_thread::yield();
  }
  s.report.stall_ms += 1e3 * seconds_since(begin);
}

const SnapshotReport& Snapshot::report() const { return state_->report; }

}  // namespace trireme
