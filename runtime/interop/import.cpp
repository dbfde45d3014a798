#include "runtime/interop/import.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"
#include "trireme/core/thread_pool.h"

#include "runtime/interop/hf_source.h"
#include "runtime/store/file.h"
#include "runtime/store/file_layout.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/steps.h"
#include "runtime/store/write/snapshot.h"

namespace trireme::interop {
namespace {

constexpr Index writing_buffer = Index{16} << 20;

/// The boxes of one shard: whole tensors, or rows of them.
using Shard = std::vector<Piece>;

std::vector<Shard> cut(const std::vector<HfView>& views, Index shard_bytes) {
  std::vector<Shard> shards(1);
  Index used = 0;
  for (const HfView& view : views) {
    const Index row_bytes = view.shape.count() / view.shape[0] * size_bytes(DType::f32);
    for (Index row = 0; row < view.shape[0];) {
      if (used + row_bytes > shard_bytes && !shards.back().empty()) {
        shards.emplace_back();
        used = 0;
      }
      const Index fitting = std::max<Index>(1, (shard_bytes - used) / row_bytes);
      const Index rows = std::min(fitting, view.shape[0] - row);
      Box box{view.shape, view.shape};
      for (int d = 0; d < view.shape.dims(); ++d) box.begin[d] = 0;
      box.begin[0] = row;
      box.size[0] = rows;
      shards.back().push_back(
          {HfSource::prefix + view.logical, DType::f32, view.shape, box, nullptr});
      used += rows * row_bytes;
      row += rows;
    }
  }
  return shards;
}

/// Writes the files of a step, one after the other.
class StepWriter {
 public:
  StepWriter(Manifest& manifest, std::string directory, int threads)
      : manifest_(manifest), directory_(std::move(directory)), pool_(threads) {}

  /// Of the image of a file. Its pieces are then in the manifest.
  void write(const std::string& name, FileLayout layout) {
    const int file = static_cast<int>(manifest_.files.size());
    const std::vector<Piece> pieces = layout.pieces;
    const Index bytes = layout.bytes;
    Snapshot snapshot(std::move(layout), writing_buffer);
    snapshot.save(directory_ + '/' + name, pool_, worker_);
    worker_.wait();
    require(snapshot.report().error.empty(), snapshot.report().error);
    manifest_.files.push_back({name, bytes, snapshot.report().blocks});
    for (const Piece& piece : pieces) {
      if (manifest_.tensors.empty() || manifest_.tensors.back().name != piece.tensor)
        manifest_.tensors.push_back({piece.tensor, piece.dtype, piece.global, {}});
      manifest_.tensors.back().pieces.push_back({file, piece.offset, piece.box});
    }
  }
  /// checkpoint.h5, over all shards.
  void write_global() {
    std::vector<GlobalTensor> all;
    for (const Manifest::Tensor& tensor : manifest_.tensors) {
      all.push_back({tensor.name, tensor.dtype, tensor.global, {}});
      for (const Manifest::Stored& stored : tensor.pieces)
        all.back().parts.push_back(
            {manifest_.files[static_cast<std::size_t>(stored.file)].name, stored.box});
    }
    write(global_name, lay_out_global(all));
  }

 private:
  Manifest& manifest_;
  const std::string directory_;
  ThreadPool pool_;
  Worker worker_;
};

/// Gives the pieces memory of `buffer`, and reads them.
void read(HfSource& source, Shard& shard, const Buffer& buffer, int threads) {
  std::vector<Wanted> wanted;
  Index used = 0;
  for (Piece& piece : shard) {
    void* data = buffer.data() + used;
    piece.data = data;
    wanted.push_back({piece.tensor, piece.dtype, piece.global, piece.box, data});
    used += piece.bytes();
  }
  source.read(wanted, threads, {});
}

Index bytes_of(const Shard& shard) {
  Index bytes = 0;
  for (const Piece& piece : shard) bytes += piece.bytes();
  return bytes;
}

void write_step(const ModelFiles& model, const std::string& directory, Manifest& manifest,
                const ImportOptions& options) {
  std::vector<HfView> views = model.views;
  std::sort(views.begin(), views.end(),
            [](const HfView& a, const HfView& b) { return a.logical < b.logical; });
  std::vector<Shard> shards = cut(views, options.shard_bytes);
  Index total = 0, done = 0, largest = 0;
  for (const Shard& shard : shards) {
    total += bytes_of(shard);
    largest = std::max(largest, bytes_of(shard));
  }
  const Buffer buffer = allocate_host(largest);
  HfSource source(model.files, model.views);
  StepWriter writer(manifest, directory, options.threads);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    read(source, shards[i], buffer, options.threads);
    writer.write(shard_name(static_cast<int>(i)), lay_out_shard(shards[i]));
    done += bytes_of(shards[i]);
    if (options.progress) options.progress(done, total);
  }
  writer.write_global();
  manifest.identity.emplace_back("origin/values xxh3", fmt::format("{:016x}", source.sum()));
}

}  // namespace

void import_model(const ModelFiles& model, const std::string& run, Manifest head,
                  const ImportOptions& options) {
  if (const auto* tied = tied_head(model.views, model.files))
    expect_equal(model.files, *tied, *model.files.find(model.views.front().hf));
  make_directory(run);
  LeaseOptions at_once;
  at_once.wait_s = 0;
  const Lease lease(run, head.run, at_once);
  clean_leftovers(run);
  require(list_steps(run).empty(), run, ": has steps already; import into another directory");
  const std::string unfinished = unfinished_path(run, head.step, head.run);
  make_directory(unfinished);
  try {
    write_step(model, unfinished, head, options);
    KeyValues facts;
    for (const auto& fact : head.identity)
      if (fact.first.starts_with("origin/")) facts.push_back(fact);
    keep_files(model.files.path, run, facts);
    commit_step(run, head);
  } catch (...) {
    try {
      discard_step(run, head.step, head.run);
    } catch (const Error&) {  // the first failure is what matters
    }
    throw;
  }
}

}  // namespace trireme::interop
