// The entry point of the CUDA module that comm calls (runtime/comm/load_nccl.cpp).
#pragma once

namespace trireme {
class Mesh;
class Device;
struct NcclOptions;
}  // namespace trireme

extern "C" {
/// The caller owns the mesh. Null, with the reason in `text`, when there can be none.
trireme::Mesh* trireme_nccl_open(trireme::Mesh* host, trireme::Device* gpu,
                                 const trireme::NcclOptions* options, char* text, int text_bytes);
}
