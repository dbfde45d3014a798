// Whether a device computes and keeps bits as it should: products under load, with their rate; its
// memory; and steps of a real training.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "trireme/comm/host.h"
#include "trireme/core/device.h"

namespace trireme::preflight {

struct SteadyProducts {
  std::string bits;  // "4096: HASH", of the result; equal on devices that compute alike
  double gflops = 0;
};
/// Computes the product of the same two square matrices for so long, at least twice. Throws: Error
/// when a result differs from the first one, which is silent corruption.
SteadyProducts run_products(Stream& stream, Index size, DType dtype, double seconds);

/// Repeats any product: `product` computes it and returns a hash of the result.
SteadyProducts repeat_products(const std::function<std::uint64_t()>& product, Index size,
                               DType dtype, double seconds);

/// Returns the smallest size from 256, doubled, whose product takes 5 ms; 8192 or what memory
/// allows at most.
Index lasting_product(Stream& stream, DType dtype);

struct MemoryTested {
  Index bytes = 0, free_bytes = 0;  // tested ones, and those that were free
};
/// Fills nine tenths of the free memory with a pattern that is another one at each place, reads it
/// on the device, and again with the inverse. Stops after so long with
/// what was written until then. Throws: Error when the memory holds other bits.
MemoryTested test_memory(Stream& stream, double seconds);

/// Does three steps of the model "tiny" (train_gpt --model tiny) on invented text. Returns a hash
/// of their losses and gradient norms, which depend on every parameter and moment, to compare with
/// that of other devices. `mesh`: of this rank alone.
std::string bits_of_training(Mesh& mesh, Stream& stream, const Host& host);

}  // namespace trireme::preflight
