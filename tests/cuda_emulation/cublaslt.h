// What the emulated cuBLASLt offers and how long that seems to take: tests change it, and see what
// was called.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <cublasLt.h>

namespace trireme::emulation {

struct BlasBehaviour {
  /// Of the algorithms that the heuristics recommend for any product, in their order.
  std::vector<double> times_us = {3, 1, 2};
  /// In place of that, of an algorithm's first launches, one after the other.
  std::map<int, std::vector<double>> times_of_launches_us;
  /// In addition, of a product with this epilogue.
  double epilogue_us = 0;
  /// Epilogues for which there is no algorithm.
  std::set<cublasLtEpilogue_t> unknown;
  /// Algorithms that are recommended, but fail to run.
  std::set<int> broken;

  int heuristic_calls = 0;
  /// What was launched: algorithms by their place among the recommendations, and epilogues.
  std::vector<int> launched;
  std::vector<cublasLtEpilogue_t> epilogues;
  std::set<cudaDataType> operands;
  /// Each product (a number for its shape) with the algorithms that it was launched with, and how
  /// many launches were the first of their kind: a library may load something then.
  std::set<std::pair<std::uint64_t, int>> met;
  int first_launches = 0;
};

/// Of this process.
BlasBehaviour& blas_behaviour();

}  // namespace trireme::emulation
