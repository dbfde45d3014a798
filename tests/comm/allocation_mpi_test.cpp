// Operations over MPI allocate no memory once they have run.
#include "tests/support/allocation_checks.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/mpi_ranks.h"

namespace trireme {
namespace {

TEST(MpiAllocation, NoOperationAllocatesOnceItHasRun) {
  const auto mesh = mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1));
  HostStream stream;
  for (Memory memory : {Memory::allocated, Memory::ordinary}) {
    TestArray<float> x(*mesh, memory, 64 * mpi_session().size());
    run_every_operation(mesh->world(), x.data(), stream);
    const long before = test::allocations_of_this_thread();
    for (int i = 0; i < 200; ++i) run_every_operation(mesh->world(), x.data(), stream);
    EXPECT_EQ(test::allocations_of_this_thread(), before);
  }
}

}  // namespace
}  // namespace trireme
