// The NCCL transport: collectives of GPUs, on streams of their own beside the kernels. NCCL itself
// is in the CUDA module (runtime/core/cuda_module.h) and appears in no header. How streams are
// ordered: docs/gpu/nccl.md.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <string>

#include "trireme/comm/mesh.h"

namespace trireme {

/// Whether ranks send each other what they start, over the host, so that collectives in different
/// orders give an error that names both instead of a hang. Costs one host message per collective.
enum class OrderCheck { off, on };

struct NcclOptions {
  /// How long an operation may take, and how long ranks wait for each other at the start.
  double timeout_s = 600;
  /// For several ranks on one GPU: a collective starts when the device is idle, and the host waits
  /// for its end. Kernels of one rank that fill the GPU could keep another rank's part of a
  /// collective from ever starting. An exchange ends at its wait().
  bool serialize = false;
  OrderCheck order_check = OrderCheck::off;
  /// Path of the module; empty: libtrireme_cuda.so beside this library.
  std::string module = {};
};

/// Collective over `host`, whose shape it takes: a mesh over the memory of `gpu`, a device of the
/// same module. Its operations take streams of that device. Both must outlive it. While the host
/// waits for the device or for other ranks it also polls NCCL: an error or a time-out there ends
/// every group with an Error that names the operation. Throws: Error when the module has no NCCL,
/// or ranks do not connect in time.
std::unique_ptr<Mesh> open_nccl_mesh(Mesh& host, Device& gpu, const NcclOptions& options = {});

}  // namespace trireme

// The entry point of the CUDA module that open_nccl_mesh() calls.
extern "C" {
/// The caller owns the mesh. Null, with the reason in `text`, when there can be none.
trireme::Mesh* trireme_nccl_open(trireme::Mesh* host, trireme::Device* gpu,
                                 const trireme::NcclOptions* options, char* text, int text_bytes);
}
