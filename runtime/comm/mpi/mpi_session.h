// The MPI transport. MPI itself appears in no header.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <optional>

#include "trireme/comm/mesh.h"

#include "runtime/observe/status_page.h"

namespace trireme {

struct MpiOptions {
  /// How long a rank waits for another one before it gives up with an Error.
  double timeout_s = 600;
};

/// This process among those of its launcher, before MPI starts: of Open MPI's mpirun; 0 of 1
/// without a launcher. Nothing where another launcher does not say it.
struct LaunchedRank {
  int rank = 0, ranks = 1;
};
std::optional<LaunchedRank> launched_rank();

/// MPI_Init (funneled, yielding when idle) to MPI_Finalize. One per process. A process started
/// without mpirun is one rank and does not use MPI.
class MpiSession {
 public:
  /// `page` (may be null) is that of this rank, and outlives the session.
  MpiSession(int& argc, char**& argv, observe::StatusPage* page = nullptr);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  /// Ranks on this node, and this rank's index among them.
  int node_size() const;
  int node_rank() const;
  /// Collective. Throws: Error when the mesh's size is not size().
  std::unique_ptr<Mesh> make_mesh(const MeshShape& shape, const MpiOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
