// Products of a device under load: their rate, and whether equal ones have equal bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/core/device.h"

namespace trireme::preflight {

struct SteadyProducts {
  std::string bits;  // "4096: HASH", of the result; equal on devices that compute alike
  double gflops = 0;
};
/// The product of the same two square matrices for so long, at least twice. Throws: Error when a
/// result differs from the first one, which is silent corruption.
SteadyProducts run_products(Stream& stream, Index size, DType dtype, double seconds);

/// Repeats any product: `product` computes it and returns a hash of the result.
SteadyProducts repeat_products(const std::function<std::uint64_t()>& product, Index size,
                               DType dtype, double seconds);

/// Returns the smallest size from 256, doubled, whose product takes 5 ms; 8192 or what memory
/// allows at most.
Index lasting_product(Stream& stream, DType dtype);

}  // namespace trireme::preflight
