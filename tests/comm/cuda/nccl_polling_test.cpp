// How often a host that waits asks its GPU and NCCL: counted by the emulation.
#define OMPI_SKIP_MPICXX 1
#include <thread>

#include <gtest/gtest.h>

#include "runtime/comm/nccl/nccl_communicator.h"
#include "tests/comm/cuda/gpu_ranks.h"
#include "tests/cuda_emulation/nccl_state.h"
#include "tests/cuda_emulation/streams.h"

namespace trireme {
namespace {

/// Rank 0 waits 100 ms or more for the others. However long it is, the host looks once in 100 µs
/// and asks once in 20 µs at most.
TEST(NcclPolling, AHostThatWaitsAsksSeldom) {
  using Clock = std::chrono::steady_clock;
  const GpuRanks ranks = open_gpu_ranks();
  Communicator& world = ranks.mesh->world();
  const Buffer memory = ranks.mesh->allocate(4);
  const auto& streams = emulation::Streams::instance();
  if (world.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  world.all_reduce({memory.data(), 1, DType::f32}, Reduction::sum, *ranks.stream);
  const auto* nccl = dynamic_cast<const nccl::NcclCommunicator*>(&world);  // null: one rank
  const auto looks = [&] { return nccl == nullptr ? 0 : nccl->handle()->looks; };
  const int looks_before = looks();
  const Index questions = streams.questions();
  const auto begun = Clock::now();
  ranks.stream->synchronize();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begun);
  const Index most_looks = us / std::chrono::microseconds(100) + 1;
  EXPECT_LE(looks() - looks_before, most_looks);
  // Without a pause in the first 50 µs, of some 20 ns at least; with 3 µs until 320 µs; then 20.
  const Index most_questions = 50'000 / 20 + 320 / 3 + us.count() / 20;
  constexpr int groups = 2;  // the world and the data group: a look asks for both
  EXPECT_LE(streams.questions() - questions, most_questions + groups * most_looks);
}

}  // namespace
}  // namespace trireme
