// Nothing is allocated in the loop: every operator new of this program is counted.
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "tests/graph/random_graph.h"
#include "tests/graph/runner.h"

namespace {
thread_local long allocations_of_this_thread = 0;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations_of_this_thread;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace trireme::test {
namespace {

TEST(Allocations, AreCounted) {
  const long before = allocations_of_this_thread;
  ::operator delete(::operator new(1));
  EXPECT_EQ(allocations_of_this_thread - before, 1);
}

TEST(Allocations, NothingIsAllocatedInACallOfTheExecutor) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const RandomGraph random(seed);
    const auto mesh = make_self_mesh();
    PlanOptions options;
    options.backward = PlanOptions::Backward::split;
    Stage s(random.graph, {random.loss}, cut_stages(random.graph, {random.loss}, 1), 0, options,
            initial_parameters(random.graph), mesh->axis(Axis::tensor), 2);
    const InputData data(random.graph, 0);
    const MicroBatch batch{.last = true, .inputs = data.tensors()};
    const long before = allocations_of_this_thread;
    for (int slot = 0; slot < 2; ++slot) {
      s.executor->forward(slot, batch);
      s.executor->backward(slot, batch, BackwardPart::input);
      s.executor->backward(slot, batch, BackwardPart::parameter);
    }
    EXPECT_EQ(allocations_of_this_thread - before, 0);
  }
}

}  // namespace
}  // namespace trireme::test
