// The two entry points of the CUDA module, as the loader (kernels/load_cuda.cpp) finds them.
#pragma once

namespace trireme {
class Device;
struct CudaOptions;
}  // namespace trireme

extern "C" {
/// How many GPUs there are, with a line in `text` for each (Device::identity); or 0, with the
/// reason in `text`.
int trireme_cuda_find(char* text, int text_bytes);
/// The caller owns the device. Null, with the reason in `text`, when it cannot be opened.
trireme::Device* trireme_cuda_open(const trireme::CudaOptions& options, char* text, int text_bytes);
}
