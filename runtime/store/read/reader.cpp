// First the plan: which blocks hold something wanted, and what of it; then threads that read runs
// of them.
#include "runtime/store/read/reader.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <tuple>

#include "trireme/core/error.h"
#include "trireme/core/thread_pool.h"

#include "runtime/core/seconds_since.h"
#include "runtime/store/read/block_reader.h"
#include "runtime/store/read/widen.h"
#include "runtime/store/strips.h"

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
