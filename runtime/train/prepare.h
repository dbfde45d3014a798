// Before the first step ops do their one-time work, such as choosing algorithms by timing.
#pragma once

#include <vector>

#include "runtime/train/pass.h"

namespace trireme::train {

/// Collective: all ranks at the same time, in the order of their plans, with no collective in
/// flight. `memory`: of the passes, which timing may fill: its content is then undefined.
struct DeviceMemory {
  std::byte* data;
  Index bytes;
};
void prepare_passes(const Context& context, const std::vector<Pass*>& passes,
                    const std::vector<DeviceMemory>& memory);

}  // namespace trireme::train
