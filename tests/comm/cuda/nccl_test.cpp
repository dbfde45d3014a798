// Every collective of GPUs under every order of streams: the checks of the other transports, and
// what only streams have.
#include <thread>

#include <gmock/gmock.h>

#include "trireme/core/bf16.h"

#include "tests/comm/cuda/gpu_ranks.h"
#include "tests/support/overlap_checks.h"

namespace trireme {
namespace {

TEST(Nccl, EveryCollectiveIsExact) {
  in_every_schedule([] {
    const GpuRanks ranks = open_gpu_ranks();
    check_everything(*ranks.mesh, ranks.mesh->world(), TestMemory(*ranks.stream), 3001);
  });
}

TEST(Nccl, GroupsOfTheMeshAreExact) {
  const int size = mpi_session().size();
  const int tensor = size % 2 == 0 ? 2 : 1, pipeline = size % 4 == 0 ? 2 : 1;
  in_every_schedule([&] {
    const GpuRanks ranks = open_gpu_ranks(MeshShape(size / tensor / pipeline, pipeline, tensor));
    const TestMemory memory(*ranks.stream);
    for (Axis axis : {Axis::pipeline, Axis::data, Axis::tensor}) {
      EXPECT_EQ(ranks.mesh->axis(axis).rank(), ranks.mesh->coordinate(axis));
      EXPECT_EQ(ranks.mesh->axis(axis).name(), name(axis));
      check_everything(*ranks.mesh, ranks.mesh->axis(axis), memory, 100);
    }
    const auto group = ranks.mesh->split(ranks.mesh->rank() % 3, "thirds");
    check_everything(*ranks.mesh, *group, memory, 100);
    ranks.host->world().barrier();
  });
}

TEST(Nccl, RanksWithoutAColorAreInNoGroup) {
  const GpuRanks ranks = open_gpu_ranks();
  const bool last = ranks.mesh->rank() == ranks.size() - 1;
  const auto group = ranks.mesh->split(last ? -1 : 5, "all but one");
  ASSERT_EQ(group == nullptr, last);
  if (!last) {
    EXPECT_EQ(group->size(), ranks.size() - 1);
    check_everything(*ranks.mesh, *group, TestMemory(*ranks.stream), 100);
  }
}

TEST(Nccl, ManyOperationsMayBeInFlightAndAwaitedInAnyOrder) {
  in_every_schedule([] {
    const GpuRanks ranks = open_gpu_ranks();
    check_many_in_flight(*ranks.mesh, ranks.mesh->world(), TestMemory(*ranks.stream), 40, 11);
  });
}

TEST(Nccl, MoreOperationsThanTheRingHoldsAreRight) {
  const GpuRanks ranks = open_gpu_ranks();
  check_many_in_flight(*ranks.mesh, ranks.mesh->world(), TestMemory(*ranks.stream), 400, 12);
}

TEST(Nccl, WaitingForOneGroupServesTheOthers) {
  const int size = mpi_session().size(), tensor = size % 2 == 0 ? 2 : 1;
  in_every_schedule([&] {
    const GpuRanks ranks = open_gpu_ranks(MeshShape(size / tensor, 1, tensor));
    check_crossed_waits(*ranks.mesh, 10, TestMemory(*ranks.stream));
  });
}

TEST(Nccl, AnOperationThatWaitsForARankHoldsUpNoOtherGroup) {
  in_every_schedule([] {
    const GpuRanks ranks = open_gpu_ranks();
    const auto group = ranks.mesh->split(0, "another");
    TestArray<float> x(*ranks.mesh, TestMemory(*ranks.stream), 1),
        y(*ranks.mesh, TestMemory(*ranks.stream), 1);
    x[0] = y[0] = 1;
    x.upload();
    y.upload();
    const auto start = [&](Communicator& in, TestArray<float>& of) {
      return in.start_all_reduce(of.elements(), Reduction::sum, *ranks.stream);
    };
    // Rank 0 starts both; the others come to the first when the second is done, which needs rank
    // 0's GPU.
    Ticket first, second;
    if (ranks.mesh->rank() == 0) first = start(ranks.mesh->world(), x);
    second = start(*group, y);
    group->wait(second, *ranks.stream);
    y.download();
    if (ranks.mesh->rank() != 0) first = start(ranks.mesh->world(), x);
    ranks.mesh->world().wait(first, *ranks.stream);
    x.download();
    EXPECT_EQ(x[0] + y[0], 2 * ranks.size());
  });
}

TEST(Nccl, SerializedOperationsAreExact) {
  in_every_schedule([] {
    const GpuRanks ranks = open_gpu_ranks(NcclOptions{.serialize = true});
    check_many_in_flight(*ranks.mesh, ranks.mesh->world(), TestMemory(*ranks.stream), 20, 13);
  });
}

TEST(Nccl, AGroupMayBeSplitOffWhileOperationsAreUnderWay) {
  in_every_schedule([] {
    const GpuRanks ranks = open_gpu_ranks();
    TestArray<float> x(*ranks.mesh, TestMemory(*ranks.stream), 10);
    for (Index i = 0; i < 10; ++i) x[i] = 1;
    x.upload();
    for (int i = 0; i < 3; ++i)
      ranks.mesh->world().start_all_reduce(x.elements(), Reduction::max, *ranks.stream);
    const auto group = ranks.mesh->split(0, "another");
    group->all_reduce(x.elements(), Reduction::sum, *ranks.stream);
    x.download();
    EXPECT_EQ(x[9], ranks.size());
  });
}

/// The sum over ranks of numbers that round, as rank 0 has it; all ranks must have the same bits.
std::vector<float> sum_of_odd_numbers(const GpuRanks& ranks) {
  constexpr Index count = 1000;
  TestArray<float> x(*ranks.mesh, TestMemory(*ranks.stream), count);
  const Random random = random_for(5, "sums", static_cast<std::uint64_t>(ranks.mesh->rank()));
  for (Index i = 0; i < count; ++i) x[i] = random.normal(i);
  x.upload();
  ranks.mesh->world().all_reduce(x.elements(), Reduction::sum, *ranks.stream);
  x.download();
  std::vector<float> sums(count);
  for (Index i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] = x[i];
  ranks.mesh->world().broadcast(x.elements(), 0, *ranks.stream);
  x.download();
  Index wrong = 0;
  for (Index i = 0; i < count; ++i) wrong += x[i] != sums[static_cast<std::size_t>(i)];
  EXPECT_EQ(wrong, 0) << "rank " << ranks.mesh->rank() << " has other sums than rank 0";
  return sums;
}

TEST(Nccl, SumsHaveTheSameBitsOnAllRanksAndInEveryRun) {
  std::vector<float> first;
  in_every_schedule([&] {
    const GpuRanks ranks = open_gpu_ranks();
    const std::vector<float> sums = sum_of_odd_numbers(ranks);
    if (first.empty()) first = sums;
    EXPECT_EQ(sums, first);
  });
}

TEST(Nccl, SumsOfBf16AreSumsAndNothingElseIs) {
  const GpuRanks ranks = open_gpu_ranks();
  if (ranks.size() == 1) return;
  const Buffer memory = ranks.mesh->allocate(200);
  std::vector<Bf16> host(100);
  for (std::size_t i = 0; i < host.size(); ++i)
    host[i] =
        to_bf16(static_cast<float>(test_value(ranks.mesh->rank(), static_cast<Index>(i)) % 16));
  ranks.stream->copy(memory.data(), host.data(), 200);
  const Elements x{memory.data(), 100, DType::bf16};
  EXPECT_THROW(ranks.mesh->world().start_all_reduce(x, Reduction::max, *ranks.stream), Error);
  ranks.mesh->world().all_reduce(x, Reduction::sum, *ranks.stream);
  ranks.stream->copy(host.data(), memory.data(), 200);
  ranks.stream->synchronize();
  for (std::size_t i = 0; i < host.size(); ++i) {
    float sum = 0;
    for (int r = 0; r < ranks.size(); ++r)
      sum += static_cast<float>(test_value(r, static_cast<Index>(i)) % 16);
    EXPECT_EQ(to_float(host[i]), sum);
  }
}

/// What a second stream sees of a sum of ones, when it waits for it or does not.
float seen_by_another_stream(const GpuRanks& ranks, bool waits) {
  Communicator& world = ranks.mesh->world();
  const auto reader = ranks.gpu->make_stream();
  const Buffer x = ranks.mesh->allocate(4), copy = ranks.mesh->allocate(4);
  const float one = 1;
  ranks.stream->copy(x.data(), &one, 4);
  const Ticket ticket =
      world.start_all_reduce({x.data(), 1, DType::f32}, Reduction::sum, *ranks.stream);
  if (waits) world.wait(ticket, *reader);
  reader->copy(copy.data(), x.data(), 4);
  float seen = 0;
  reader->copy(&seen, copy.data(), 4);
  reader->synchronize();
  world.wait(ticket, *ranks.stream);
  ranks.stream->synchronize();
  return seen;
}

TEST(Nccl, AStreamThatWaitsSeesTheResultWhicheverStreamStartedIt) {
  in_every_schedule([] {
    const GpuRanks ranks = open_gpu_ranks();
    EXPECT_EQ(seen_by_another_stream(ranks, true), ranks.size());
  });
}

TEST(Nccl, AMissingWaitIsSeenUnderSomeOrderOfStreams) {
  int wrong = 0;
  in_every_schedule([&] {
    const GpuRanks ranks = open_gpu_ranks();
    wrong += seen_by_another_stream(ranks, false) != static_cast<float>(ranks.size()) ? 1 : 0;
    ranks.host->world().barrier();
  });
  EXPECT_GT(wrong, 0);
}

TEST(Nccl, AHostThatWaitsForHostsLetsItsGpuContinue) {
  in_every_schedule([] {
    const GpuRanks ranks = open_gpu_ranks();
    TestArray<float> x(*ranks.mesh, TestMemory(*ranks.stream), 10);
    for (Index i = 0; i < 10; ++i) x[i] = 1;
    x.upload();
    ranks.mesh->world().all_reduce(x.elements(), Reduction::sum, *ranks.stream);
    if (ranks.mesh->rank() != 0)
      x.download();  // needs rank 0's GPU, while its host is in the barrier
    ranks.host->world().barrier();
    x.download();
    EXPECT_EQ(x[9], ranks.size());
  });
}

TEST(Nccl, ASendWaitsForItsReceive) {
  if (mpi_session().size() < 2) return;
  in_every_schedule([] {
    const GpuRanks ranks = open_gpu_ranks();
    Communicator& world = ranks.mesh->world();
    const int rank = ranks.mesh->rank();
    TestArray<float> x(*ranks.mesh, TestMemory(*ranks.stream), 1);
    x[0] = static_cast<float>(rank);
    x.upload();
    const Message message{1 - rank, x.data(), 4};
    Ticket ticket;
    if (rank == 0) {
      ticket = world.start_exchange({&message, 1}, {}, *ranks.stream);
      for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(world.done(ticket));
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    world.barrier();
    if (rank == 1) ticket = world.start_exchange({}, {&message, 1}, *ranks.stream);
    if (rank <= 1) {
      world.wait(ticket, *ranks.stream);
      x.download();
      EXPECT_EQ(x[0], 0);
    }
    ranks.host->world().barrier();
  });
}

}  // namespace
}  // namespace trireme
