// RecordingMesh: a mesh that keeps what is allocated on it.
#pragma once

#include <cstdlib>
#include <vector>

#include "trireme/comm/mesh.h"

namespace trireme {

/// Passes all on, and keeps what is allocated.
class RecordingMesh final : public Mesh {
 public:
  explicit RecordingMesh(Mesh& mesh) : mesh_(mesh) {}
  const MeshShape& shape() const override { return mesh_.shape(); }
  int rank() const override { return mesh_.rank(); }
  Communicator& axis(Axis axis) override { return mesh_.axis(axis); }
  Communicator& world() override { return mesh_.world(); }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override {
    return mesh_.split(color, name);
  }
  Buffer allocate(Index bytes) override {
    allocated.push_back(bytes);
    return mesh_.allocate(bytes);
  }
  std::string memory_description() const override { return mesh_.memory_description(); }
  [[noreturn]] void abort(int /*code*/) override { std::abort(); }

  std::vector<Index> allocated;

 private:
  Mesh& mesh_;
};

}  // namespace trireme
