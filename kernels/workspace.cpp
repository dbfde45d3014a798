// The public functions about workspaces, for any device.
#include "kernels/workspace.h"

#include "trireme/kernels/attention.h"
#include "trireme/kernels/embedding.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/norm.h"
#include "trireme/kernels/stream_bytes.h"

namespace trireme {

using namespace kernels;

namespace {

bool is_gpu(const DeviceTraits& device) { return device.kind == DeviceKind::cuda; }

}  // namespace

Index gemm_workspace_bytes(const DeviceTraits& device, const Gemm& p) {
  return is_gpu(device) ? gpu_gemm_workspace_bytes(p) : cpu_gemm_workspace_bytes(device, p);
}

Index gemm_stream_bytes(const DeviceTraits& device) {
  return is_gpu(device) ? gpu_gemm_stream_bytes() : 0;
}

Index attention_forward_workspace_bytes(const DeviceTraits& device, const AttentionShape& s,
                                        DType dtype, AttentionChoice choice) {
  return is_gpu(device) ? gpu_attention_forward_bytes(device, s, dtype, choice)
                        : cpu_attention_forward_bytes(device, s, dtype, choice);
}

Index attention_backward_workspace_bytes(const DeviceTraits& device, const AttentionShape& s,
                                         DType dtype, AttentionChoice choice) {
  return is_gpu(device) ? gpu_attention_backward_bytes(device, s, dtype, choice)
                        : cpu_attention_backward_bytes(device, s, dtype, choice);
}

Index norm_backward_workspace_bytes(const DeviceTraits& device, Index rows, Index channels) {
  return is_gpu(device) ? gpu_norm_backward_bytes(device, rows, channels)
                        : cpu_norm_backward_bytes(rows, channels);
}

Index embedding_backward_workspace_bytes(const DeviceTraits& device, Index rows) {
  return is_gpu(device) ? gpu_embedding_backward_bytes(rows) : 0;
}

}  // namespace trireme
