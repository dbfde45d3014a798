// DeviceTraits: the properties of a device that plans depend on. Values, so that a machine plans
// for devices that it does not have. Device::traits() gives those of a device in use, cpu_traits()
// (kernels/device.h) those of this machine's CPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/core/instruction_set.h"

namespace trireme {

enum class DeviceKind { cpu, cuda };
const char* name(DeviceKind kind);

/// The default is one thread of a CPU without vector instructions.
struct DeviceTraits {
  DeviceKind kind = DeviceKind::cpu;
  /// It has instructions for products of bf16. If not, they are computed in f32 and rounded once.
  bool native_bf16 = false;
  // These members describe a CPU.
  int threads = 1;
  InstructionSet instruction_set = InstructionSet::portable;  // never `best`
  // These members describe a GPU.
  int capability = 0;  // compute capability, 90 for 9.0
  int multiprocessors = 0;
  Index shared_bytes = 0;  // the most shared memory that a block may ask for

  /// "GPU of compute capability 9.0, 132 multiprocessors, 232448 bytes of shared memory a block".
  std::string describe() const;
  friend bool operator==(const DeviceTraits&, const DeviceTraits&) = default;
};

/// A GPU by its numbers. Throws: Error that names the one that is not positive.
DeviceTraits gpu_traits(int capability, int multiprocessors, Index shared_bytes);
/// A GPU by the name of its model, one of known_gpus(). Throws: Error that lists them.
DeviceTraits gpu_traits(std::string_view model);
std::vector<std::string> known_gpus();

}  // namespace trireme
