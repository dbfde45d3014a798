// A checksum of a few places of a model's files, which tells models with the same headers apart.
//
// Not installed; modules above may include it.
#pragma once

#include "runtime/store/safetensors/directory.h"

namespace trireme::safetensors {

inline constexpr Index sampled_places = 32, sampled_bytes = 4096;  // and of each place

/// Of `sampled_bytes` at each of `sampled_places` places that lie evenly in the values of all
/// tensors; of fewer where a tensor ends. Throws: Error that names the file.
Checksum sample_of(const Directory& directory);

}  // namespace trireme::safetensors
