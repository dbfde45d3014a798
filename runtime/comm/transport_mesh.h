// TransportMesh: what a mesh over threads and one over MPI have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/mesh.h"

#include "runtime/comm/page_of.h"
#include "runtime/comm/progress.h"

namespace trireme::comm {

class TransportMesh : public Mesh, public HasStatusPage {
 public:
  TransportMesh(const MeshShape& shape, int rank, Progress::Options options);

  const MeshShape& shape() const override { return shape_; }
  int rank() const override { return rank_; }
  Communicator& axis(Axis axis) override { return *axes_[shape().index(axis)]; }
  Communicator& world() override { return *world_; }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override;
  /// What this rank advances while it waits for others.
  Progress& progress() { return progress_; }
  observe::StatusPage& page() override { return progress_.page(); }

 protected:
  /// Creates world and axes. Call it at the end of a constructor.
  void connect_all();
  /// Collective over `world_ranks`, which are at least two. `id` is the same on all of them, and
  /// another for every group that one of them is in.
  virtual std::unique_ptr<Communicator> connect(const std::string& name,
                                                const std::vector<int>& world_ranks, int id) = 0;
  /// Collective over the world: the values of all ranks.
  virtual std::vector<int> gather(int value) = 0;
  /// Destroys world and axes while what they use still exists. Call it at the start of a
  /// destructor.
  void disconnect();

 private:
  std::unique_ptr<Communicator> make(const std::string& name, const std::vector<int>& world_ranks);

  MeshShape shape_;
  int rank_;
  Progress progress_;
  int connected_ = 0;
  std::unique_ptr<Communicator> world_;
  std::vector<std::unique_ptr<Communicator>> axes_;  // in the order of shape()
};

}  // namespace trireme::comm
