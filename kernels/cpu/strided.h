// copy_strided: ElementwiseKernels::copy_strided for the CPU.
#pragma once

#include "trireme/core/device.h"
#include "trireme/kernels/write.h"

namespace trireme::kernels {

void copy_strided(Stream& stream, const Tensor& to, const Tensor& from, Write write);

}  // namespace trireme::kernels
