// DataSource: the sample stream that training reads. It is a pure function of the global sample
// number, so the order of the data is the same for every layout, survives a change of layout, and
// "the position in the stream" is one number.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/core/tensor.h"

namespace trireme {

/// How far the stream has read one of the sources it draws from, in samples of that source.
struct SourcePosition {
  std::string name;
  Index samples = 0;
  friend bool operator==(const SourcePosition&, const SourcePosition&) = default;
};

/// A pure function from global sample number to one sample: the same for every layout.
class DataSource {
 public:
  virtual ~DataSource() = default;
  /// Writes one sample: out[i] is the row (dim 0 taken off) of graph input i, in order of
  /// declaration; entries with null data are not needed on this stage and must be skipped. A
  /// floating input is f32 here also where the model takes it in bf16. Returns how many targets
  /// count: 0 where all of a sample's are masked, but not in all samples of a global batch. Host
  /// memory. Throws: Error that names what does not fit (shape, dtype, or the data itself). What is
  /// thrown here, of whatever type, is a failure at run time: it ends the job with exit code 1.
  virtual Index fill(Index sample, std::span<const Tensor> out) = 0;
  /// Where the stream stands per source after `samples` samples, for logs and checkpoints.
  virtual std::vector<SourcePosition> positions(Index samples) const {
    return {{"samples", samples}};
  }
  /// What has to be the same for sample n to be the same, as names and values: ranks that train
  /// together are refused when they differ, and so is a run that is resumed from a checkpoint. File
  /// names are no part of it: data may move.
  virtual std::vector<std::pair<std::string, std::string>> identity() const { return {}; }
  /// For messages: the file that a fact of identity() speaks of; empty: none, or no such fact.
  virtual std::string file_of(const std::string& /*fact*/) const { return {}; }
};

}  // namespace trireme
