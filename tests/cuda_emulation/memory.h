// What the parts of the emulated CUDA runtime tell each other about memory.
#pragma once

#include <cstddef>

namespace trireme::emulation {

/// All of it lies in one allocation of the device.
bool is_device_memory(const void* data, std::size_t bytes);

}  // namespace trireme::emulation
