// What goes wrong among GPUs ends in an Error that names group and operation, on every rank that
// can know.
#include <gmock/gmock.h>

#include "tests/comm/cuda/gpu_ranks.h"
#include "tests/support/collective_checks.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(NcclMistakes, ASwappedOrderOfCollectivesNamesBoth) {
  if (mpi_session().size() == 1) return;
  in_every_schedule([] {
    const auto patient = mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1));
    {
      const GpuRanks ranks = open_gpu_ranks({.timeout_s = 50});
      Communicator& data = ranks.mesh->axis(Axis::data);
      const int n = ranks.size(), r = ranks.mesh->rank();
      const Buffer memory = ranks.mesh->allocate(400 * n);
      const Elements all{memory.data(), 100 * n, DType::f32};
      const Elements mine{memory.data() + r * 400, 100, DType::f32};
      const std::string message = message_of([&] {
        if (r == 1) data.all_gather(mine, all, *ranks.stream);
        data.all_reduce(all, Reduction::sum, *ranks.stream);
        if (r != 1) data.all_gather(mine, all, *ranks.stream);
        ranks.stream->synchronize();
      });
      EXPECT_THAT(message, AllOf(HasSubstr("all_gather of 100 f32"),
                                 HasSubstr(str("all_reduce sum of ", 100 * n, " f32"))));
    }
    patient->world().barrier();
  });
}

TEST(NcclMistakes, AnotherCutOnOneRankIsNamed) {
  if (mpi_session().size() == 1) return;
  const auto patient = mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1));
  {
    const GpuRanks ranks = open_gpu_ranks({.timeout_s = 50});
    Communicator& data = ranks.mesh->axis(Axis::data);
    const int n = ranks.size(), r = ranks.mesh->rank();
    const Buffer memory = ranks.mesh->allocate(400 * n);
    std::vector<Index> counts(static_cast<std::size_t>(n), 100);
    counts[r == 1 ? 0 : 1] -= 30;  // the same number of elements
    counts[r == 1 ? 1 : 0] += 30;
    const Elements all{memory.data(), 100 * n, DType::f32};
    const Buffer out = ranks.mesh->allocate(4 * 130);
    const Elements mine{out.data(), counts[static_cast<std::size_t>(r)], DType::f32};
    const std::string message = message_of([&] {
      data.reduce_scatter(all, mine, Reduction::sum, *ranks.stream, {counts});
      ranks.stream->synchronize();
    });
    const std::string operation =
        str("reduce_scatter sum of ", 100 * n, " f32 in unequal parts (hash ");
    EXPECT_THAT(message, AllOf(HasSubstr("data group: operation 1 is " + operation),
                               HasSubstr("but " + operation)));
  }
  patient->world().barrier();
}

/// The error of this rank, which starts a collective that rank 1 never joins and then does `more`.
template <class F>
std::string message_without_rank_1(const GpuRanks& ranks, const Buffer& memory, F more) {
  return message_of([&] {
    ranks.mesh->axis(Axis::data)
        .all_reduce({memory.data(), 100, DType::f32}, Reduction::max, *ranks.stream);
    more();
  });
}

TEST(NcclMistakes, ARankThatNeverComesIsATimeOutThatNamesTheOperation) {
  if (mpi_session().size() == 1) return;
  const auto patient = mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1));
  {
    const GpuRanks ranks = open_gpu_ranks({.timeout_s = 8});
    const Buffer memory = ranks.mesh->allocate(400);
    if (ranks.mesh->rank() != 1) {
      const std::string message =
          message_without_rank_1(ranks, memory, [&] { ranks.stream->synchronize(); });
      EXPECT_THAT(message,
                  AllOf(HasSubstr("data group: all_reduce max of 100 f32 (operation 1 of rank"),
                        HasSubstr("after 8 s")));
      EXPECT_THAT(message_of([&] { ranks.mesh->axis(Axis::data).progress(); }),
                  HasSubstr("all_reduce max of 100 f32"));
    }
    patient->world().barrier();
    if (ranks.mesh->rank() == 1) {  // it learns of it when its host polls
      EXPECT_THAT(message_of([&] { ranks.host->world().barrier(); }),
                  HasSubstr("all_reduce max of 100 f32"));
    }
  }
  patient->world().barrier();
}

/// More than a stream takes: a host that launches more would block inside the driver, which does
/// not looks.
TEST(NcclMistakes, ARankThatNeverComesIsSeenByAHostThatKeepsLaunching) {
  if (mpi_session().size() == 1) return;
  const auto patient = mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1));
  {
    const GpuRanks ranks = open_gpu_ranks({.timeout_s = 8});
    const Buffer memory = ranks.mesh->allocate(400);
    if (ranks.mesh->rank() != 1) {
      const std::string message = message_without_rank_1(ranks, memory, [&] {
        for (int i = 0; i < 3000; ++i) ranks.stream->zero(memory.data(), memory.bytes());
      });
      EXPECT_THAT(message, HasSubstr("data group: all_reduce max of 100 f32 (operation 1 of rank"));
    }
    patient->world().barrier();
  }
  patient->world().barrier();
}

TEST(NcclMistakes, AnErrorOfOneRankAloneEndsWhatItHasUnderWay) {
  if (mpi_session().size() == 1) return;
  const auto patient = mpi_session().make_mesh(MeshShape(mpi_session().size(), 1, 1));
  {
    const GpuRanks ranks = open_gpu_ranks({.timeout_s = 50});
    const std::string message = message_of([&] {
      const auto group = ranks.mesh->split(0, "another");
      const Buffer memory = ranks.mesh->allocate(400);  // freeing it waits for the device
      for (Communicator* in : {&ranks.mesh->world(), &ranks.mesh->axis(Axis::data), group.get()})
        if (ranks.mesh->rank() != 1)
          in->start_all_reduce({memory.data(), 100, DType::f32}, Reduction::sum, *ranks.stream);
      if (ranks.mesh->rank() == 0) throw Error("something else");
      ranks.host->world().barrier();
    });
    EXPECT_THAT(message,
                HasSubstr(ranks.mesh->rank() == 0 ? "something else" : "an error on rank 0"));
  }
  patient->world().barrier();
}

TEST(NcclMistakes, AnErrorThatIsHandledEndsNothing) {
  const GpuRanks ranks = open_gpu_ranks();
  TestArray<float> x(*ranks.mesh, TestMemory(*ranks.stream), 1);
  for (int i = 0; i < 2; ++i) {
    x[0] = 1;
    x.upload();
    ranks.mesh->world().all_reduce(x.elements(), Reduction::sum, *ranks.stream);
    x.download();
    EXPECT_EQ(x[0], ranks.size());
    const std::string message = message_of([&] {
      const Buffer freed = ranks.mesh->allocate(400);
      throw Error("too large");
    });
    EXPECT_THAT(message, HasSubstr("too large"));
  }
}

TEST(NcclMistakes, SizesThatDoNotFitAreErrorsAtTheCall) {
  const GpuRanks ranks = open_gpu_ranks();
  Communicator& world = ranks.mesh->world();
  const Buffer memory = ranks.mesh->allocate(400);
  const auto floats = [&](Index begin, Index count) {
    return Elements{memory.data() + begin * 4, count, DType::f32};
  };
  Stream& stream = *ranks.stream;
  EXPECT_THROW(world.reduce_scatter(floats(0, 10), floats(10, 7), Reduction::sum, stream), Error);
  EXPECT_THROW(world.all_gather(floats(0, 7), floats(10, 10), stream), Error);
  const std::vector<Index> counts(static_cast<std::size_t>(ranks.size()) + 1, 1);
  EXPECT_THAT(message_of([&] { world.all_gather(floats(0, 1), floats(10, 5), stream, {counts}); }),
              HasSubstr(str("world group: all_gather in ", counts.size(), " parts")));
  EXPECT_THROW(world.broadcast(floats(0, 10), ranks.size(), stream), Error);
  const Message absent{ranks.size(), memory.data(), 4};
  EXPECT_THROW(world.exchange({&absent, 1}, {&absent, 1}, stream), Error);
  if (ranks.size() > 1) {
    HostStream host;
    EXPECT_THAT(message_of([&] { world.all_reduce(floats(0, 1), Reduction::sum, host); }),
                HasSubstr("a stream of that GPU"));
    EXPECT_THROW(world.all_reduce({memory.data(), 4, DType::u8}, Reduction::sum, stream), Error);
  }
  world.barrier();
}

}  // namespace
}  // namespace trireme
