// Operations inside a node allocate no memory.
#include <array>
#include <vector>

#include "tests/support/allocation_checks.h"
#include "tests/support/allocation_counter.h"

namespace trireme {
namespace {

TEST(Allocation, CollectivesOfANodeAllocateNothing) {
  run_on_threads(MeshShape(3, 1, 1), [](Mesh& mesh) {
    HostStream stream;
    std::vector<float> x(64 * 3);
    const Elements all{x.data(), 64 * 3, DType::f32};
    const std::array<Index, 3> counts = {100, 0, 92};
    const Parts parts{counts};
    const Elements mine{x.data() + (mesh.rank() == 0 ? 0 : 100),
                        counts[static_cast<std::size_t>(mesh.rank())], DType::f32};
    const long before = test::allocations_of_this_thread();
    for (int i = 0; i < 200; ++i) {
      mesh.world().all_reduce(all, Reduction::max, stream);
      mesh.world().reduce_scatter(all, mine, Reduction::max, stream, parts);
      mesh.world().all_gather(mine, all, stream, parts);
      mesh.world().broadcast(all, 1, stream);
      mesh.world().barrier();
    }
    EXPECT_EQ(test::allocations_of_this_thread(), before);
    int* volatile counted = new int;
    delete counted;
    EXPECT_EQ(test::allocations_of_this_thread(), before + 1);
  });
}

}  // namespace
}  // namespace trireme
