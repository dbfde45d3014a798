// Reading boxes of a checkpoint into memory of whatever device, with little memory of the host.
#pragma once

#include <vector>

#include "trireme/core/device.h"

#include "runtime/store/read/reader.h"

namespace trireme {

/// The most of host memory that data passes through on its way to a device that is no CPU. Large
/// enough that the disk and the copies, which take turns, are each busy for long.
inline constexpr Index passing_bytes = Index{256} << 20;

/// Host memory that read_into needs for boxes of `wanted_bytes`.
Index reading_bytes(DeviceKind kind, Index wanted_bytes, int threads);

/// As read_boxes, with Wanted::data on the device of `stream`: straight into memory of a CPU,
/// through the host in batches for others. On return all is in place; where it throws, any part of
/// it may be.
ReadReport read_into(Stream& stream, const std::string& directory, const Manifest& manifest,
                     const std::vector<Wanted>& wanted, int threads);

/// The way through the host: in batches of at most `most` bytes, for which larger boxes are cut.
ReadReport read_in_batches(Stream& stream, const std::string& directory, const Manifest& manifest,
                           const std::vector<Wanted>& wanted, int threads, Index most);

}  // namespace trireme
