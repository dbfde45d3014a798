// The public functions about workspaces, for any device.
#include "kernels/workspace.h"

#include "trireme/kernels/attention.h"
#include "trireme/kernels/embedding.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/norm.h"
#include "trireme/kernels/stream_bytes.h"

#include "kernels/attention.h"
#include "kernels/gpu_sizes.h"

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

namespace trireme::kernels {

// The workspaces of the kernels of GPUs.

namespace {

constexpr Index widest_head = 128;

Index simt_backward_shared_bytes(const AttentionShape& s) {
  Index bytes = 0;
  gpu::for_head_width(s.head_dim, [&](auto width) {
    bytes = gpu::backward_shared_floats<decltype(width)::value>() * Index{sizeof(float)};
  });
  return bytes;
}

}  // namespace

/// cuBLASLt assigns bias gradients: a gradient to be added is first stored here.
Index gpu_gemm_workspace_bytes(const Gemm& p) {
  const bool adds = p.bias_gradient != nullptr && p.write_bias_gradient == Write::add;
  return adds ? p.m * Index{sizeof(float)} : 0;
}

/// The workspace, and a block of those that CUDA gives memory in: partial sums and the like share
/// one.
Index gpu_gemm_stream_bytes() {
  constexpr Index block = Index{2} << 20;
  return blas_workspace_bytes + block;
}

void check_gpu_attention(const AttentionShape& s, DType dtype) {
  check_attention(s);
  check_storage(dtype, "attention");
  require(s.head_dim <= widest_head, "attention on GPUs takes heads of up to ", widest_head,
          " elements, got head_dim ", s.head_dim);
}

AttentionChoice gpu_attention_choice(const DeviceTraits& gpu, const AttentionShape& s, DType dtype,
                                     AttentionChoice asked) {
  return attention_choice({dtype, s.head_dim, s.sequence, gpu.capability}, asked);
}

Index gpu_attention_forward_bytes(const DeviceTraits& gpu, const AttentionShape& s, DType dtype,
                                  AttentionChoice asked) {
  check_gpu_attention(s, dtype);
  gpu_attention_choice(gpu, s, dtype, asked);
  return 0;
}

/// dy . y of every (batch, query head, token). Called before anything runs, so it is here that a
/// GPU that is too small is reported.
Index gpu_attention_backward_bytes(const DeviceTraits& gpu, const AttentionShape& s, DType dtype,
                                   AttentionChoice asked) {
  check_gpu_attention(s, dtype);
  const AttentionChoice choice = gpu_attention_choice(gpu, s, dtype, asked);
  const Index wanted = simt_backward_shared_bytes(s);
  require(choice == AttentionChoice::mma || wanted <= gpu.shared_bytes,
          "the gradient of attention by simt with heads of ", s.head_dim, " in ", dtype, " needs ",
          wanted, " bytes of shared memory a block, and this GPU gives ", gpu.shared_bytes,
          ": heads of up to 96, or of 128 by mma in bf16, need less");
  return s.batch * s.query_heads * s.sequence * Index{sizeof(float)};
}

/// The sums of each block, for dweight and for dbias.
Index gpu_norm_backward_bytes(const DeviceTraits& gpu, Index rows, Index channels) {
  return gpu::norm_slabs(gpu.multiprocessors, rows, channels) * 2 * channels * Index{sizeof(float)};
}

/// Keys of all rows, and the same again to merge them.
Index gpu_embedding_backward_bytes(Index rows) { return 2 * rows * Index{sizeof(Index)}; }

}  // namespace trireme::kernels
