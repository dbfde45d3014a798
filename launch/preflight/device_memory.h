// Whether the memory of a device holds what is written to it.
#pragma once

#include "trireme/core/device.h"

namespace trireme::preflight {

struct MemoryTested {
  Index bytes = 0, free_bytes = 0;  // that were tested, of those that were free
};
/// Fills nine tenths of the free memory with a pattern that is another
/// one at each place, reads it on the device, and again with the inverse. Stops after so long with
/// what was written until then. Throws: Error when the memory holds other bits.
MemoryTested test_memory(Stream& stream, double seconds);

}  // namespace trireme::preflight
