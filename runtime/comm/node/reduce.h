// Element-wise reductions over the buffers of several ranks, in one fixed order: source 0 first.
#pragma once

#include <cstddef>
#include <span>

#include "trireme/comm/communicator.h"

namespace trireme::comm {

/// targets[t][i] = sources[0][i] op sources[1][i] op ..., for `count` elements. Each source is read
/// once, so a target may be a source. bf16 is reduced in f32 and rounded once. With max and min a
/// NaN wins over any number. Throws: Error when the dtype is u8.
void reduce(DType dtype, Reduction reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> targets, Index count);

const char* name(Reduction reduction);

}  // namespace trireme::comm
