// What the emulated cuBLASLt offers and how long that seems to take: tests change it, and see what was called.
#pragma once

#include <set>
#include <vector>

#include <cublasLt.h>

namespace trireme::emulation {

struct BlasBehaviour {
  /// Of the algorithms that the heuristics recommend for any product, in their order.
  std::vector<double> times_us = {3, 1, 2};
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
};

/// Of this process.
BlasBehaviour& blas_behaviour();

}  // namespace trireme::emulation
