// Reading boxes of logical tensors from a committed step, whatever layout wrote it: only blocks
// that are needed, each verified before any byte of it is used.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/store/manifest.h"

namespace trireme {

/// A box to fill. `data`: host memory for the packed box.
struct Wanted {
  std::string tensor;
  DType dtype = DType::f32;
  Shape global;
  Box box;
  void* data = nullptr;
  /// Whether this reader stands for the box where sums are made of what all ranks have read: one of
  /// its copies does.
  bool counts = true;
};

struct ReadReport {
  Index bytes_used = 0, bytes_read = 0;
  double ms = 0;
};

/// Throws: Error that names the file, and the tensor, when a file is missing, has another size, or
/// a block is damaged; and when a tensor is not there or has another shape or dtype, but bf16 is
/// read as f32 where that is wanted. `threads`: the number of readers. Each calls `has_read` after
/// each of its reads, of some MiB.
ReadReport read_boxes(const std::string& directory, const Manifest& manifest,
                      const std::vector<Wanted>& wanted, int threads,
                      const std::function<void()>& has_read = {});

/// Host memory that read_boxes takes for itself.
Index reader_bytes(int threads);

/// Checks every block of every file. Returns one line per problem ("shard-00003.h5: block 17
/// (tensor parameters/wte) is damaged"), extra files too; empty: all holds. `progress(done, total)`
/// in bytes.
std::vector<std::string> verify_step(const std::string& directory, const Manifest& manifest,
                                     int threads,
                                     const std::function<void(Index, Index)>& progress = {});

/// TensorSource: where the values of logical tensors come from, as loading sees it.
class TensorSource {
 public:
  TensorSource() = default;
  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  /// Fills the boxes, in host memory. Each of `threads` threads calls `has_read` after each of its
  /// reads, and takes a few MiB for itself (reader_bytes()). Throws: Error that names file and
  /// tensor.
  virtual ReadReport read(const std::vector<Wanted>& wanted, int threads,
                          const std::function<void()>& has_read) = 0;
  /// Whether read() fills the whole box; the rest stays as it was in memory.
  virtual bool fills(const Wanted&) const { return true; }
};

/// A step as it lies in `directory`.
class StepSource final : public TensorSource {
 public:
  /// `manifest` is borrowed.
  StepSource(std::string directory, const Manifest& manifest)
      : directory_(std::move(directory)), manifest_(manifest) {}
  ReadReport read(const std::vector<Wanted>& wanted, int threads,
                  const std::function<void()>& has_read) override {
    return read_boxes(directory_, manifest_, wanted, threads, has_read);
  }

 private:
  std::string directory_;
  const Manifest& manifest_;
};

}  // namespace trireme
