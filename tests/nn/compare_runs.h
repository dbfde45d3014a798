// How far two runs of a graph are apart.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/nn/run_graph.h"
#include "tests/support/finite_or_huge.h"

namespace trireme {

/// |actual - expected| / |expected| in the 2-norm.
inline double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  double difference = 0, size = 0;
  if (actual.size() != expected.size()) return 1e30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(double(actual[i]) - double(expected[i]), 2);
    size += std::pow(double(expected[i]), 2);
  }
  return test::finite_or_huge(std::sqrt(difference) / std::sqrt(size > 0 ? size : 1));
}

/// How far two runs are apart, relatively.
struct Difference {
  double loss = 0, gradients = 0;
  std::string worst;  // the parameter whose gradient differs most
};
inline Difference difference(const GraphRun& actual, const GraphRun& expected) {
  Difference d;
  d.loss = std::abs(actual.loss - expected.loss) / std::abs(expected.loss);
  if (actual.gradients.size() != expected.gradients.size()) d.gradients = 1e30;
  for (const auto& [name, gradient] : expected.gradients) {
    const auto found = actual.gradients.find(name);
    const double error =
        found == actual.gradients.end() ? 1e30 : relative_error(found->second, gradient);
    if (error >= d.gradients) {
      d.gradients = error;
      d.worst = name;
    }
  }
  return d;
}

/// Two to four tensor ranks compute what one does: gradients within `gradients`, relatively.
inline void expect_tensor_ranks_agree(const Trace& trace, RunOptions options, double gradients) {
  options.tensor_size = 1;
  const GraphRun one = run_graph(trace, options);
  for (const int ranks : {2, 3, 4}) {
    options.tensor_size = ranks;
    const Difference d = difference(run_graph(trace, options), one);
    EXPECT_LT(d.loss, 1e-6) << ranks << " ranks";
    EXPECT_LT(d.gradients, gradients) << ranks << " ranks, " << d.worst;
  }
}

}  // namespace trireme
