// Elements that the emulated NCCL knows: their sizes, and how they are summed.
#pragma once

#include <cstddef>
#include <vector>

#include <nccl.h>

namespace trireme::emulation {

/// 0: not emulated.
std::size_t bytes_of(ncclDataType_t type);
const char* name_of(ncclDataType_t type);

/// to[begin, end) = that of source[first] op source[first + 1] op ..., around the ranks.
void reduce(void* to, const std::vector<const std::byte*>& sources, std::size_t first,
            std::size_t begin, std::size_t end, ncclDataType_t type, ncclRedOp_t op);

}  // namespace trireme::emulation
