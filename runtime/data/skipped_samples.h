// SkippedSamples: samples of the data order that training leaves out (--skip-samples). The others
// keep their order, so every layout still reads the same.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::data {

class SkippedSamples {
 public:
  struct Range {
    Index first = 0, last = 0;  // both are left out
    friend bool operator==(const Range&, const Range&) = default;
  };

  SkippedSamples() = default;
  /// Ranges A-B, with commas between several: "4792-4799,6000-6007". Throws: Error that names the
  /// range.
  explicit SkippedSamples(std::string_view text);
  /// Returns the ranges as one text; empty: none.
  std::string text() const;

  bool empty() const { return ranges_.empty(); }
  /// Returns the sample that is read as the n-th, from 0 on.
  Index at(Index n) const;
  void add(const SkippedSamples& more);
  /// The first of the other's samples that are not left out here; -1: there is none.
  Index first_missing_of(const SkippedSamples& other) const;

 private:
  void add(const Range& range);

  std::vector<Range> ranges_;  // ascending, with samples between them
};

/// The values of --skip-samples together. Throws: Error.
SkippedSamples skipped_samples(const std::vector<std::string>& values);

}  // namespace trireme::data
