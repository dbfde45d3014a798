// What a stream needs for products, apart from them.
#pragma once

#include "trireme/core/device_traits.h"
#include "trireme/core/dtype.h"

namespace trireme {

/// Bytes of device memory that a stream allocates for itself, at the latest for its first product,
/// and keeps.
Index gemm_stream_bytes(const DeviceTraits&);

}  // namespace trireme
