// DataSource: the sample stream that training reads. It is a pure function of the global sample
// number, so the order of the data is the same for every layout, survives a change of layout, and
// "the position in the stream" is one number.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/core/tensor.h"

namespace trireme {

/// How many samples of one of its sources the stream has read.
struct SourcePosition {
  std::string name;
  Index samples = 0;
  friend bool operator==(const SourcePosition&, const SourcePosition&) = default;
};

/// A pure function from global sample number to one sample: the same for every layout.
class DataSource {
 public:
  virtual ~DataSource() = default;
  /// Writes one sample to host memory. out[i] is one row (without dim 0) of graph input i, in order
  /// of declaration. Skip entries with null data: this stage does not need them. A floating-point
  /// input is f32 here even if the model takes it in bf16. Returns the number of targets that
  /// count. It may be 0 for a sample whose targets are all masked, but not for every sample of a
  /// global batch. Throws: Error that names what does not fit (shape, dtype, or the data itself).
  /// Any exception thrown here, whatever its type, is a run-time failure and ends the job with exit
  /// code 1.
  virtual Index fill(Index sample, std::span<const Tensor> out) = 0;
  /// The position in each source after `samples` samples of the stream, for logs and checkpoints.
  virtual std::vector<SourcePosition> positions(Index samples) const {
    return {{"samples", samples}};
  }
  /// Names and values of everything that determines sample n. Ranks that train together must agree
  /// on them, and so must a run and the checkpoint it resumes from. File names are not part of it,
  /// because data may move.
  virtual std::vector<std::pair<std::string, std::string>> identity() const { return {}; }
  /// For messages: the file that the entry `fact` of identity() describes; empty if there is none.
  virtual std::string file_of(const std::string& /*fact*/) const { return {}; }
  /// For bits per byte: the bytes of text that a target stands for, in the mean; none where they
  /// are not known.
  virtual std::optional<double> bytes_per_target() const { return {}; }
};

}  // namespace trireme
