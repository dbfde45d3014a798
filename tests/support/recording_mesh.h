// RecordingMesh: a mesh that keeps what is allocated on it.
#pragma once

#include <vector>

#include "tests/support/forwarding_mesh.h"

namespace trireme {

class RecordingMesh final : public test::ForwardingMesh {
 public:
  using ForwardingMesh::ForwardingMesh;
  Buffer allocate(Index bytes) override {
    Buffer buffer = ForwardingMesh::allocate(bytes);
    allocated.push_back(bytes);
    memory.push_back(buffer.data());
    return buffer;
  }

  std::vector<Index> allocated;          // bytes
  std::vector<const std::byte*> memory;  // valid as long as its owner
};

}  // namespace trireme
