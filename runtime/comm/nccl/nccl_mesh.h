// NcclMesh: a mesh of GPUs over a mesh of their hosts. One NCCL communicator of all ranks is made;
// every smaller group is split off it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/nccl/nccl_communicator.h"

namespace trireme::nccl {

class NcclMesh final : public Mesh {
 public:
  NcclMesh(Mesh& host, Device& gpu, const NcclOptions& options);
  ~NcclMesh() override;

  const MeshShape& shape() const override { return host_.shape(); }
  int rank() const override { return host_.rank(); }
  Communicator& axis(Axis axis) override { return *axes_[shape().index(axis)]; }
  Communicator& world() override { return *world_; }
  std::unique_ptr<Communicator> split(int color, const std::string& name) override;
  Buffer allocate(Index bytes) override { return gpu_.allocate(bytes); }
  std::string memory_description() const override { return description_; }
  [[noreturn]] void abort(int code) override;

 private:
  /// Collective: all ranks, as one NCCL communicator.
  NcclHandle connect();
  /// Collective. `most_blocks`: thread blocks of each operation of the group.
  std::unique_ptr<Communicator> split(int color, const std::string& name, int most_blocks);
  /// Collective. Null for ranks that pass NCCL_SPLIT_NOCOLOR.
  NcclHandle split_off(int color, const std::string& name, int most_blocks);
  std::vector<int> gather(int value);

  Mesh& host_;
  Device& gpu_;
  const NcclOptions options_;
  NoStream none_;
  std::string description_;
  Watchdog watchdog_;
  std::unique_ptr<Communicator> world_;
  std::vector<std::unique_ptr<Communicator>> axes_;  // in the order of shape()
  NcclCommunicator* everyone_ = nullptr;             // world_ when it is more than one rank
  bool limits_blocks_ = true;                        // no rank's user has chosen how many there are
};

}  // namespace trireme::nccl
