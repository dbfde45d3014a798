// What the parts of the emulated CUDA runtime share about memory.
#pragma once

#include <cstddef>

namespace trireme::emulation {

/// All of it lies in one allocation of the device.
bool is_device_memory(const void* data, std::size_t bytes);

/// What a library takes of the device for itself, and gives back; false when there is not so much.
bool take_device_memory(std::size_t bytes);
void give_back_device_memory(std::size_t bytes);

}  // namespace trireme::emulation
