#include "runtime/comm/nccl/module.h"

#include <cstdio>

#include "runtime/comm/nccl/nccl_mesh.h"

extern "C" trireme::Mesh* trireme_nccl_open(trireme::Mesh* host, trireme::Device* gpu,
                                            const trireme::NcclOptions* options, char* text,
                                            int text_bytes) {
  try {
    return new trireme::nccl::NcclMesh(*host, *gpu, *options);
  } catch (const std::exception& error) {
    std::snprintf(text, static_cast<std::size_t>(text_bytes), "%s", error.what());
    return nullptr;
  }
}
