// median: the middle of numbers, which few outliers do not shift.
//
// Not installed; modules above may include it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace trireme {

/// The mean of both where two numbers are in the middle; 0 of none. Changes the order of `values`.
template <class T>
T median_in(std::span<T> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

inline double median(std::vector<double> values) { return median_in(std::span(values)); }

}  // namespace trireme
