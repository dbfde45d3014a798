// Swish on a GPU: launched on `queue`, a cudaStream_t; pointers are the device's.
#pragma once

#include <cstdint>

void swish_forward_on_gpu(void* queue, const float* x, float* y, std::int64_t count, float beta);
void swish_backward_on_gpu(void* queue, const float* x, const float* dy, float* dx,
                           std::int64_t count, float beta);
