// First the plan: which blocks hold something wanted, and what of it; then threads that read runs
// of them.
#include "runtime/store/read/reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <tuple>

#include "trireme/core/box.h"
#include "trireme/core/error.h"
#include "trireme/core/thread_pool.h"

#include "runtime/core/seconds_since.h"
#include "runtime/store/read/block_reader.h"
#include "runtime/store/read/widen.h"

namespace trireme::store {
namespace {

// Strips: the elements that two boxes of a tensor share, as the ranges that are contiguous in both:
// in the file, where the stored box is packed, and in memory, where the wanted one is.

/// A packed box, and where its first element lies.
struct PackedBox {
  Box box;
  Index offset_bytes = 0;
};

class Strips {
 public:
  /// `both`: inside of `file.box` and of `memory.box`, not empty.
  Strips(const PackedBox& file, const PackedBox& memory, const Box& both, Index item_bytes);

  /// Bytes of the file from the first to the last element.
  Index begin() const { return first_file_; }
  Index end() const { return in_file(count_ - 1) + bytes_; }
  /// Whether any element is in bytes [from, to) of the file.
  bool touch(Index from, Index to) const;
  /// Copies what lies in bytes [from, to) of the file, which are at `source`, to the box at
  /// `memory`.
  void copy(Index from, Index to, const std::byte* source, std::byte* memory) const;

 private:
  struct Dim {
    Index extent, file_stride, memory_stride;  // strides in bytes
  };
  Index in_file(Index strip) const;
  Index in_memory(Index strip) const;
  Index first_ending_after(Index file_byte) const;

  std::array<Dim, Shape::max_dims> dims_{};  // outer dims, over which strips are counted
  int outer_dims_ = 0;
  Index count_ = 1, bytes_ = 0;  // strips, bytes of each
  Index first_file_ = 0, first_memory_ = 0;
};

// Strips ascend in the file (both boxes are row-major), so the ones that a block holds are found by
// binary search.

Index first_byte(const PackedBox& packed, const Box& both, Index item_bytes) {
  const Shape strides = packed.box.size.packed_strides();
  Index items = 0;
  for (int d = 0; d < both.size.dims(); ++d)
    items += (both.begin[d] - packed.box.begin[d]) * strides[d];
  return packed.offset_bytes + items * item_bytes;
}

/// What both boxes hold; nothing when that is empty.
std::optional<Box> intersection(const Box& a, const Box& b) {
  Box both = a;
  for (int d = 0; d < a.size.dims(); ++d) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.size[d] = std::min(a.begin[d] + a.size[d], b.begin[d] + b.size[d]) - both.begin[d];
    if (both.size[d] <= 0) return {};
  }
  return both;
}

Strips::Strips(const PackedBox& file, const PackedBox& memory, const Box& both, Index item_bytes)
    : bytes_(item_bytes),
      first_file_(first_byte(file, both, item_bytes)),
      first_memory_(first_byte(memory, both, item_bytes)) {
  // A strip goes over the last dims as long as all of the inner ones are whole in both boxes.
  int inner = both.size.dims();
  for (bool whole = true; whole && inner > 0;) {
    --inner;
    bytes_ *= both.size[inner];
    whole = both.size[inner] == file.box.size[inner] && both.size[inner] == memory.box.size[inner];
  }
  outer_dims_ = inner;
  const Shape in_file = file.box.size.packed_strides(),
              in_memory = memory.box.size.packed_strides();
  for (int d = 0; d < outer_dims_; ++d) {
    dims_[static_cast<std::size_t>(d)] = {both.size[d], in_file[d] * item_bytes,
                                          in_memory[d] * item_bytes};
    count_ *= both.size[d];
  }
}

Index Strips::in_file(Index strip) const {
  Index offset = first_file_;
  for (int d = outer_dims_ - 1; d >= 0; --d) {
    const Dim& dim = dims_[static_cast<std::size_t>(d)];
    offset += strip % dim.extent * dim.file_stride;
    strip /= dim.extent;
  }
  return offset;
}

Index Strips::in_memory(Index strip) const {
  Index offset = first_memory_;
  for (int d = outer_dims_ - 1; d >= 0; --d) {
    const Dim& dim = dims_[static_cast<std::size_t>(d)];
    offset += strip % dim.extent * dim.memory_stride;
    strip /= dim.extent;
  }
  return offset;
}

Index Strips::first_ending_after(Index file_byte) const {
  Index low = 0, high = count_;
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (in_file(middle) + bytes_ > file_byte)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

bool Strips::touch(Index from, Index to) const {
  const Index strip = first_ending_after(from);
  return strip < count_ && in_file(strip) < to;
}

void Strips::copy(Index from, Index to, const std::byte* source, std::byte* memory) const {
  for (Index strip = first_ending_after(from); strip < count_; ++strip) {
    const Index offset = in_file(strip);
    if (offset >= to) return;
    const Index begin = std::max(from, offset), end = std::min(to, offset + bytes_);
    std::memcpy(memory + in_memory(strip) + (begin - offset), source + (begin - from),
                static_cast<std::size_t>(end - begin));
  }
}

}  // namespace
}  // namespace trireme::store

namespace trireme {

using namespace store;

namespace {

/// What a wanted box and a stored one share.
struct Region {
  const Manifest::Tensor* tensor;
  std::byte* data;  // of the wanted box
  Strips strips;
};

/// Block `block` of `file` holds something of `regions[region]`.
struct Use {
  int file;
  Index block, region;
};

class BoxReader {
 public:
  BoxReader(const std::string& directory, const Manifest& manifest)
      : directory_(directory), manifest_(manifest) {}

  /// `wanted` is borrowed.
  void want(const Wanted& wanted);
  ReadReport read(int threads, const std::function<void()>& has_read);

 private:
  /// Consecutive blocks, and their uses [first_use, last_use) in order.
  struct Run {
    BlockRun blocks;
    std::size_t first_use, last_use;
  };
  const Manifest::Tensor& check(const Wanted& wanted) const;
  static bool widens(const Manifest::Tensor& stored, const Wanted& wanted) {
    return stored.dtype == DType::bf16 && wanted.dtype == DType::f32;
  }
  void plan_runs(int threads);
  void read_runs(const std::function<void()>& has_read);
  void copy(const Run& run, const BlockReader::Result& blocks) const;
  std::string problem(const Run& run, const BlockReader::Result& blocks) const;

  const std::string& directory_;
  const Manifest& manifest_;
  std::vector<Region> regions_;
  std::vector<const Wanted*> to_widen_;  // they hold bf16 until all is read
  std::vector<Use> uses_;
  std::vector<Run> runs_;
  Index bytes_used_ = 0;

  std::atomic<std::size_t> next_run_{0};
  std::atomic<Index> bytes_read_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::size_t failed_run_ = 0;  // the first one: runs are claimed in order, so always the same
  std::string failure_;
};

const Manifest::Tensor& BoxReader::check(const Wanted& wanted) const {
  const Manifest::Tensor* tensor = manifest_.find(wanted.tensor);
  require(tensor != nullptr, directory_, ": has no tensor ", wanted.tensor);
  require(
      tensor->global == wanted.global && (tensor->dtype == wanted.dtype || widens(*tensor, wanted)),
      directory_, ": tensor ", wanted.tensor, " is ", tensor->dtype, " ", tensor->global,
      " there, not ", wanted.dtype, " ", wanted.global);
  const Box& box = wanted.box;
  bool inside = box.begin.dims() == wanted.global.dims() && box.size.dims() == wanted.global.dims();
  for (int d = 0; inside && d < wanted.global.dims(); ++d)
    inside =
        box.begin[d] >= 0 && box.size[d] >= 0 && box.begin[d] <= wanted.global[d] - box.size[d];
  require(inside, "tensor ", wanted.tensor, " ", wanted.global, ": the wanted box at ", box.begin,
          " of size ", box.size, " is not inside");
  return *tensor;
}

void BoxReader::want(const Wanted& wanted) {
  const Manifest::Tensor& tensor = check(wanted);
  const Index item_bytes = size_bytes(tensor.dtype);
  Index found = 0;
  for (const Manifest::Stored& piece : tensor.pieces) {
    const auto both = intersection(piece.box, wanted.box);
    if (!both) continue;
    found += both->count();
    const auto region = static_cast<Index>(regions_.size());
    regions_.push_back({&tensor, static_cast<std::byte*>(wanted.data),
                        Strips({piece.box, piece.offset}, {wanted.box, 0}, *both, item_bytes)});
    const Strips& strips = regions_.back().strips;
    for (Index block = strips.begin() / block_bytes; block * block_bytes < strips.end(); ++block)
      if (strips.touch(block * block_bytes, (block + 1) * block_bytes))
        uses_.push_back({piece.file, block, region});
  }
  require(found == wanted.box.count(), directory_, ": tensor ", wanted.tensor, " has ", found,
          " of the ", wanted.box.count(), " wanted elements");
  bytes_used_ += found * item_bytes;
  if (widens(tensor, wanted)) to_widen_.push_back(&wanted);
}

// Runs are short when there is little to read, so that every thread has some.
void BoxReader::plan_runs(int threads) {
  std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) {
    return std::tie(a.file, a.block, a.region) < std::tie(b.file, b.block, b.region);
  });
  Index blocks = 0;
  for (std::size_t i = 0; i < uses_.size(); ++i)
    blocks += i == 0 || uses_[i].file != uses_[i - 1].file || uses_[i].block != uses_[i - 1].block;
  const Index most = std::clamp(blocks / threads, Index{1}, most_blocks_read);
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const Use& use = uses_[i];
    if (!runs_.empty() && runs_.back().blocks.file == use.file) {
      BlockRun& last = runs_.back().blocks;
      const Index count = use.block - last.first + 1;
      if (count <= last.count + 1 && count <= most) {
        last.count = count;
        runs_.back().last_use = i + 1;
        continue;
      }
    }
    runs_.push_back({{use.file, use.block, 1}, i, i + 1});
  }
}

void BoxReader::copy(const Run& run, const BlockReader::Result& blocks) const {
  const Index begin = run.blocks.first * block_bytes, end = begin + blocks.bytes;
  for (std::size_t i = run.first_use; i < run.last_use; ++i) {
    const Region& region = regions_[static_cast<std::size_t>(uses_[i].region)];
    const Index from = uses_[i].block * block_bytes, to = std::min(end, from + block_bytes);
    region.strips.copy(from, to, blocks.data + (from - begin), region.data);
  }
}

std::string BoxReader::problem(const Run& run, const BlockReader::Result& blocks) const {
  const auto file = static_cast<std::size_t>(run.blocks.file);
  const std::string place = directory_ + "/" + manifest_.files[file].name + ": ";
  if (!blocks.problem.empty()) {
    const Region& region = regions_[static_cast<std::size_t>(uses_[run.first_use].region)];
    return place + blocks.problem + " (tensor " + region.tensor->name + ")";
  }
  return blocks.damaged.empty()
             ? ""
             : place + damage(manifest_, run.blocks.file, blocks.damaged.front());
}

void BoxReader::read_runs(const std::function<void()>& has_read) {
  BlockReader reader(directory_, manifest_);
  while (!failed_) {
    const std::size_t index = next_run_++;
    if (index >= runs_.size()) return;
    const Run& run = runs_[index];
    const BlockReader::Result blocks = reader.read(run.blocks);
    bytes_read_ += blocks.bytes;
    if (has_read) has_read();
    const std::string what = problem(run, blocks);
    if (what.empty()) {
      copy(run, blocks);
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (!failed_ || index < failed_run_) {
      failed_run_ = index;
      failure_ = what;
    }
    failed_ = true;
  }
}

ReadReport BoxReader::read(int threads, const std::function<void()>& has_read) {
  plan_runs(threads);
  ThreadPool pool(
      std::max(1, static_cast<int>(std::min<Index>(threads, static_cast<Index>(runs_.size())))));
  pool.parallel_for(pool.threads(), 1, [&](Index, Index) { read_runs(has_read); });
  if (failed_) throw Error(failure_);
  for (const Wanted* wanted : to_widen_) widen_in_place(wanted->data, wanted->box.count());
  return {.bytes_used = bytes_used_, .bytes_read = bytes_read_};
}

}  // namespace

Index reader_bytes(int threads) { return threads * most_blocks_read * block_bytes; }

ReadReport read_boxes(const std::string& directory, const Manifest& manifest,
                      const std::vector<Wanted>& wanted, int threads,
                      const std::function<void()>& has_read) {
  const double begin = steady_seconds();
  require(threads >= 1, "a checkpoint is read by at least one thread, not ", threads);
  BoxReader reader(directory, manifest);
  for (const Wanted& box : wanted) reader.want(box);
  ReadReport report = reader.read(threads, has_read);
  report.ms = 1e3 * seconds_since(begin);
  return report;
}

}  // namespace trireme
