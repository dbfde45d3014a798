// Every collective over processes, on one node and across (fake) nodes: the checks of threads_test,
// and what only processes have: shared memory, its fall-back, private buffers.
#include <gmock/gmock.h>

#include "tests/support/collective_checks.h"
#include "tests/support/mpi_ranks.h"

namespace trireme {
namespace {

std::unique_ptr<Mesh> make_mesh() {
  return mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1));
}

TEST(Mpi, EveryCollectiveIsExactInSharedMemory) {
  const auto mesh = make_mesh();
  check_everything(*mesh, mesh->world(), Memory::allocated, 300001);
}

TEST(Mpi, EveryCollectiveIsExactInOrdinaryMemory) {
  const auto mesh = make_mesh();
  check_everything(*mesh, mesh->world(), Memory::ordinary, 300001);
}

}  // namespace
}  // namespace trireme
