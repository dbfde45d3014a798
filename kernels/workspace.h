// The workspaces of the kernels of each kind of device. The public functions choose among them by
// DeviceTraits::kind. Those of GPUs belong to the library and not to the CUDA module: a machine
// without a GPU plans for GPUs as well.
#pragma once

#include "trireme/core/device_traits.h"
#include "trireme/kernels/attention_choice.h"

namespace trireme {
struct AttentionShape;
struct Gemm;
}  // namespace trireme

namespace trireme::kernels {

// These functions are for CPUs; their definitions are beside the kernels (kernels/cpu).
Index cpu_gemm_workspace_bytes(const DeviceTraits& cpu, const Gemm& p);
Index cpu_attention_forward_bytes(const DeviceTraits& cpu, const AttentionShape& s, DType dtype,
                                  AttentionChoice choice);
Index cpu_attention_backward_bytes(const DeviceTraits& cpu, const AttentionShape& s, DType dtype,
                                   AttentionChoice choice);
Index cpu_norm_backward_bytes(Index rows, Index channels);

// These functions are for GPUs. What their kernels share with them is in kernels/gpu_sizes.h.
Index gpu_gemm_workspace_bytes(const Gemm& p);
Index gpu_gemm_stream_bytes();
Index gpu_attention_forward_bytes(const DeviceTraits& gpu, const AttentionShape& s, DType dtype,
                                  AttentionChoice asked);
Index gpu_attention_backward_bytes(const DeviceTraits& gpu, const AttentionShape& s, DType dtype,
                                   AttentionChoice asked);
Index gpu_norm_backward_bytes(const DeviceTraits& gpu, Index rows, Index channels);
Index gpu_embedding_backward_bytes(Index rows);

}  // namespace trireme::kernels
