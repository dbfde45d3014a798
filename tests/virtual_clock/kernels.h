// The kernels of a virtual device: all return at once. Those of the optimizer, which run between
// the steps of plans, take the time of their bytes.
#pragma once

#include "trireme/kernels/kernels.h"

namespace trireme::virtual_clock {

const Kernels& virtual_kernels();

}  // namespace trireme::virtual_clock
