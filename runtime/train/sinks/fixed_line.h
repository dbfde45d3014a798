// FixedLine: a line in an array on the stack, since the training loop allocates nothing.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/train/sinks/metrics_end.h"

namespace trireme::train {

/// What does not fit is an error, never cut.
class FixedLine {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const auto space = text_.size() - length_;
    const auto result =
        fmt::format_to_n(text_.data() + length_, space, format, std::forward<Args>(args)...);
    require(result.size <= space, "a metrics line is longer than ", text_.size(), " bytes");
    length_ += result.size;
  }
  std::string_view text() const { return {text_.data(), length_}; }

 private:
  std::array<char, longest_metrics_line> text_;
  std::size_t length_ = 0;
};

}  // namespace trireme::train
