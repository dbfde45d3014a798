// cuda_copy_strided: ElementwiseKernels::copy_strided for GPUs.
#pragma once

#include "trireme/core/device.h"
#include "trireme/kernels/write.h"

namespace trireme::kernels {

void cuda_copy_strided(Stream& stream, const Tensor& to, const Tensor& from, Write write);

}  // namespace trireme::kernels
