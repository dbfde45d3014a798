// finite_or_huge: for tests that look for the largest error.
#pragma once

#include <cmath>

namespace trireme::test {

/// `error`, or 1e30 when it is infinite or no number: std::max and comparisons would drop a NaN.
inline double finite_or_huge(double error) { return std::isfinite(error) ? error : 1e30; }

}  // namespace trireme::test
