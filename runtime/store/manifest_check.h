// What every manifest must satisfy, before it is written and after it is read.
#pragma once

#include "runtime/store/manifest.h"

namespace trireme::store {

/// No count of a manifest (bytes, elements, a step) is larger, so that sums and products of two do
/// not overflow unnoticed.
inline constexpr Index largest_count = Index{1} << 60;

/// Files have plain, different names and one checksum for each block; tensors have different names,
/// in order; their pieces lie inside their files, share no byte, and cover each element once.
/// Throws: Error that names file or tensor.
void check(const Manifest& manifest);

}  // namespace trireme::store
