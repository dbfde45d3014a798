// Nothing is allocated in the loop: every operator new of this program is counted.
#include <gtest/gtest.h>

#include "tests/graph/random_graph.h"
#include "tests/graph/runner.h"
#include "tests/support/allocation_counter.h"

namespace trireme::test {
namespace {

TEST(Allocations, AreCounted) {
  const long before = allocations_of_this_thread();
  ::operator delete(::operator new(1));
  EXPECT_EQ(allocations_of_this_thread() - before, 1);
}

TEST(Allocations, NothingIsAllocatedInACallOfTheExecutor) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const RandomGraph random(seed);
    const auto mesh = make_self_mesh();
    PlanOptions options;
    options.backward = PlanOptions::Backward::split;
    Stage s(random.graph, {random.loss}, cut_stages(random.graph, {random.loss}, 1), 0, options,
            initial_parameters(random.graph), *mesh, 2);
    const InputData data(random.graph, 0);
    const MicroBatch batch{.last = true, .inputs = data.tensors()};
    const long before = allocations_of_this_thread();
    for (int slot = 0; slot < 2; ++slot) {
      s.executor->forward(slot, batch);
      s.executor->backward(slot, batch, BackwardPart::input);
      s.executor->backward(slot, batch, BackwardPart::parameter);
    }
    EXPECT_EQ(allocations_of_this_thread() - before, 0);
  }
}

}  // namespace
}  // namespace trireme::test
