// TensorSource: where the values of logical tensors come from, as loading sees it.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/store/read/reader.h"

namespace trireme {

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
