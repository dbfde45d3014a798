#include "runtime/comm/transport_mesh.h"

#include <numeric>

#include "runtime/comm/self.h"

namespace trireme::comm {

TransportMesh::TransportMesh(const MeshShape& shape, int rank, Progress::Options options)
    : shape_(shape), rank_(rank), progress_(std::move(options)) {}

void TransportMesh::connect_all() {
  std::vector<int> everyone(static_cast<std::size_t>(shape_.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  world_ = make("world", everyone);
  for (const auto& [axis, size] : shape_.axes())
    axes_.push_back(make(name(axis), shape_.group(rank_, axis)));
}

void TransportMesh::disconnect() {
  end_groups();
  axes_.clear();
  world_.reset();
}

std::unique_ptr<Communicator> TransportMesh::make(const std::string& name,
                                                  const std::vector<int>& world_ranks) {
  const int id = connected_++;  // every rank makes its groups in the same order
  if (world_ranks.size() == 1) return std::make_unique<SelfCommunicator>(name);
  return connect(name, world_ranks, id);
}

std::unique_ptr<Communicator> TransportMesh::split(int color, const std::string& name) {
  // Reports ranks that call different functions; gather() would block forever.
  world().barrier();
  const std::vector<int> colors = gather(color);
  std::vector<int> members;
  for (int r = 0; r < shape_.size(); ++r)
    if (colors[static_cast<std::size_t>(r)] == color) members.push_back(r);
  if (color < 0) {
    ++connected_;
    return nullptr;
  }
  return make(name, members);
}

}  // namespace trireme::comm
