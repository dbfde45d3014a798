// MpiMesh: ranks are processes. Collectives inside a node work in shared memory; MPI carries only
// messages and set-up.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/mpi/mpi_calls.h"
#include "runtime/comm/node/shared_memory.h"
#include "runtime/comm/transport_mesh.h"
#include "runtime/observe/status_page.h"

namespace trireme::comm {

/// JobEnd: how ranks learn that another one has ended its part of the job and will not communicate
/// any more. Only long waits ask, and each rank asks each other one at most once. A rank answers
/// once it has ended.
class JobEnd {
 public:
  /// `world`: a communicator of its own, because MPI uses message tags of a communicator when it
  /// derives others from it.
  explicit JobEnd(MpiComm world);
  JobEnd(const JobEnd&) = delete;
  JobEnd& operator=(const JobEnd&) = delete;

  /// Asks the rank, unless already done. True once its answer has arrived. Never blocks.
  bool has_ended(int rank);
  /// Collective. Answers the others until all ranks are here. `page`: of this rank, or null.
  void wait_for_all(observe::StatusPage* page);

 private:
  enum class State : char { unknown, asked, ended };
  void answer();
  void collect();
  /// The sender of a message that has arrived; -1 when there is none.
  int receive(int tag) const;
  void send(int rank, int tag) const;

  MpiComm world_;
  std::vector<State> states_;  // by rank
  int open_ = 0;               // questions without an answer
};

/// What MpiSession knows of the job.
struct MpiJob {
  MpiComm world, node;
  std::unique_ptr<JobEnd> end;
  int rank = 0, size = 1;
  std::vector<int> node_ranks{0};  // world ranks on this node
  std::string node_name;
  bool cores_are_shared = false;  // fewer cores than ranks on this node
  observe::StatusPage* page = nullptr;
};

class MpiMesh final : public TransportMesh {
 public:
  /// `job` outlives the mesh.
  MpiMesh(const MpiJob& job, const MeshShape& shape, double timeout_s);
  ~MpiMesh() override { disconnect(); }

  Buffer allocate(Index bytes) override;
  std::string memory_description() const override { return memory_description_; }
  [[noreturn]] void abort(int code) override;

 private:
  static Progress::Options options(const MpiJob& job, double timeout_s);
  std::vector<int> gather(int value) override { return job_.world.gather(value); }
  std::unique_ptr<Communicator> connect(const std::string& name,
                                        const std::vector<int>& world_ranks, int id) override;
  std::optional<std::vector<SharedPeerMemory::Part>> share(Index bytes);
  bool all_succeed(const std::string& failure);

  const MpiJob& job_;
  SharedPeerMemory peer_memory_;
  std::string memory_description_;
};

}  // namespace trireme::comm
