// What a FakeWorld answers after a time: the layouts of a program, and what a preflight finds.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/launcher.h"

namespace trireme::supervisor::test {

/// Known when the clock shows it.
template <class T>
class Later : public Pending<T> {
 public:
  /// `pending`: how many there are.
  Later(const double& clock, int& pending, double seconds, T value)
      : clock_(clock), pending_(pending), at_(clock + seconds), value_(std::move(value)) {
    ++pending_;
  }
  ~Later() override { --pending_; }
  std::optional<T> poll() override { return clock_ >= at_ ? std::optional(value_) : std::nullopt; }

 private:
  const double& clock_;
  int& pending_;
  const double at_;
  const T value_;
};

/// It says which numbers of ranks are legal.
struct FakeProgram {
  Index tensor = 1;             // --tp, which --also-layout may replace
  std::vector<Index> illegal;   // numbers of ranks
  bool answers_layouts = true;  // it is built on run()

  std::vector<Layout> answer(const std::vector<std::string>& options,
                             const std::vector<Index>& ranks) const {
    std::vector<Layout> all;
    const Index size = options.empty() ? tensor : std::stoll(options.back());
    for (const Index count : ranks) {
      Layout layout{.ranks = count, .data = count / size, .pipeline = 1, .tensor = size};
      layout.legal = count % size == 0 && std::count(illegal.begin(), illegal.end(), count) == 0;
      if (!layout.legal) layout.problem = str(count, " ranks do not fit");
      if (answers_layouts) all.push_back(layout);
    }
    return all;
  }
};

}  // namespace trireme::supervisor::test
