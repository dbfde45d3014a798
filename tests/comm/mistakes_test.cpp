// What goes wrong must end in an Error that says where, on every rank: other operations than the
// others, ranks that never come or have failed, sizes that do not fit.
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include <gmock/gmock.h>

#include "trireme/comm/agree.h"

#include "tests/support/collective_checks.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Elements floats(std::vector<float>& x) {
  return {x.data(), static_cast<Index>(x.size()), DType::f32};
}

TEST(Mistakes, RanksWithDifferentOperationsFailOnAll) {
  for (int ranks_per_node : {0, 2}) {
    std::atomic<int> errors{0};
    const std::string message = message_of([&] {
      run_on_threads(MeshShape(4, 1, 1),
                     [&](Mesh& mesh) {
                       HostStream stream;
                       std::vector<float> x(mesh.rank() % 2 == 1 ? 11 : 10);
                       try {
                         mesh.world().all_reduce(floats(x), Reduction::sum, stream);
                       } catch (const Error&) {
                         ++errors;
                         throw;
                       }
                     },
                     {.ranks_per_node = ranks_per_node, .timeout_s = 60});
    });
    EXPECT_THAT(message,
                AllOf(HasSubstr("world group: operation 1"), HasSubstr("all_reduce sum of 10 f32"),
                      HasSubstr("all_reduce sum of 11 f32"), HasSubstr("of 11 f32 on rank ")));
    EXPECT_EQ(errors, 4);
  }
}

TEST(Mistakes, RanksWithOtherReductionsRootsOrTypesFail) {
  const auto failure_of = [](const std::function<void(Communicator&, Stream&)>& operation) {
    return message_of([&] {
      run_on_threads(MeshShape(2, 1, 1),
                     [&](Mesh& mesh) {
                       HostStream stream;
                       operation(mesh.world(), stream);
                     },
                     {.timeout_s = 60});
    });
  };
  EXPECT_THAT(failure_of([](Communicator& world, Stream& stream) {
                std::vector<float> x(10);
                const bool first = world.rank() == 0;
                world.all_reduce(floats(x), first ? Reduction::sum : Reduction::max, stream);
              }),
              AllOf(HasSubstr("all_reduce sum of 10 f32"), HasSubstr("all_reduce max of 10 f32")));
  EXPECT_THAT(failure_of([](Communicator& world, Stream& stream) {
                std::vector<float> x(10);
                world.broadcast(floats(x), world.rank(), stream);
              }),
              AllOf(HasSubstr("from rank 0"), HasSubstr("from rank 1")));
  EXPECT_THAT(failure_of([](Communicator& world, Stream& stream) {
                std::vector<double> x(10);
                const DType dtype = world.rank() == 0 ? DType::f32 : DType::f64;
                world.all_reduce({x.data(), 10, dtype}, Reduction::sum, stream);
              }),
              AllOf(HasSubstr("all_reduce sum of 10 f32"), HasSubstr("all_reduce sum of 10 f64")));
}

TEST(Mistakes, NodesWithDifferentOperationsFail) {
  const std::string message = message_of([&] {
    run_on_threads(MeshShape(4, 1, 1),
                   [&](Mesh& mesh) {
                     HostStream stream;
                     std::vector<float> x(mesh.rank() >= 2 ? 110 : 100);
                     mesh.world().all_reduce(floats(x), Reduction::sum, stream);
                   },
                   {.ranks_per_node = 2, .timeout_s = 60});
  });
  EXPECT_THAT(message, AllOf(HasSubstr("all_reduce sum of 100 f32"),
                             HasSubstr("all_reduce sum of 110 f32")));
}

TEST(Mistakes, ARankThatNeverComesIsNamedWhenTimeIsOver) {
  std::atomic<int> there{0};     // a rank that is late would be named, too
  std::atomic<int> failures{0};  // and one that has ended is something else
  run_on_threads(MeshShape(3, 1, 1),
                 [&](Mesh& mesh) {
                   if (mesh.rank() == 1) {
                     while (failures < 2) std::this_thread::yield();
                     return;
                   }
                   for (++there; there < 2;) std::this_thread::yield();
                   HostStream stream;
                   std::vector<float> x(10);
                   Communicator& group = mesh.axis(Axis::data);
                   const std::string message =
                       message_of([&] { group.all_reduce(floats(x), Reduction::max, stream); });
                   ++failures;
                   EXPECT_THAT(message,
                               AllOf(HasSubstr("data group: all_reduce max of 10 f32"),
                                     HasSubstr("for rank 1 (world rank 1); it has waited 2 s")));
                   EXPECT_THAT(message, testing::Not(HasSubstr("rank 1 (world rank 1), rank")));
                 },
                 {.timeout_s = 2});
}

TEST(Mistakes, AMessageThatNeverComesIsNamedWhenTimeIsOver) {
  std::atomic<bool> failed{false};
  run_on_threads(
      MeshShape(1, 2, 1),
      [&](Mesh& mesh) {
        if (mesh.rank() == 1) {
          while (!failed) std::this_thread::yield();
          return;
        }
        HostStream stream;
        int x = 0;
        const Message receive{1, &x, 4};
        const std::string message = message_of([&] {
          mesh.axis(Axis::pipeline).exchange({}, {&receive, 1}, stream);
        });
        failed = true;
        EXPECT_THAT(message, AllOf(HasSubstr("pipeline group: exchange 1"),
                                   HasSubstr("message with rank 1 (world rank 1); it has waited")));
      },
      {.timeout_s = 2});
}

TEST(Mistakes, ARankThatEndsAfterTheLastOperationHasBeenThere) {
  for (int ranks_per_node : {0, 1})
    run_on_threads(MeshShape(1, 2, 1),
                   [&](Mesh& mesh) {
                     if (mesh.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
                     mesh.world().barrier();  // rank 0 asks meanwhile
                   },
                   {.ranks_per_node = ranks_per_node, .timeout_s = 60});
}

/// The error of rank 0 when rank 1 has ended and f waits for it; over the time-out, were it not
/// found earlier.
std::string message_after_the_end(const std::function<void(Mesh&, Stream&)>& f,
                                  int ranks_per_node) {
  std::string message;
  run_on_threads(MeshShape(1, 2, 1),
                 [&](Mesh& mesh) {
                   if (mesh.rank() == 1) return;
                   HostStream stream;
                   message = message_of([&] { f(mesh, stream); });
                 },
                 {.ranks_per_node = ranks_per_node, .timeout_s = 60});
  return message;
}

TEST(Mistakes, ARankThatHasEndedIsNotWaitedFor) {
  const std::string ended = "world rank 1 has ended its part of the program";
  for (int ranks_per_node : {0, 1}) {
    EXPECT_THAT(message_after_the_end(
                    [](Mesh& mesh, Stream& stream) {
                      std::vector<float> x(10);
                      mesh.axis(Axis::pipeline).all_reduce(floats(x), Reduction::max, stream);
                    },
                    ranks_per_node),
                AllOf(HasSubstr("pipeline group: all_reduce max of 10 f32"), HasSubstr(ended)));
    EXPECT_THAT(message_after_the_end(
                    [](Mesh& mesh, Stream& stream) {
                      int x = 0;
                      const Message receive{1, &x, 4};
                      mesh.world().exchange({}, {&receive, 1}, stream);
                    },
                    ranks_per_node),
                AllOf(HasSubstr("world group: exchange 1"), HasSubstr(ended)));
    EXPECT_THAT(
        message_after_the_end([](Mesh& mesh, Stream&) { mesh.split(0, "other"); }, ranks_per_node),
        AllOf(HasSubstr("world group: barrier"), HasSubstr(ended)));
  }
}

TEST(Mistakes, RanksThatAreLeftMayContinueAmongThemselves) {
  run_on_threads(MeshShape(2, 1, 2), [](Mesh& mesh) {
    if (mesh.coordinate(Axis::data) == 1) return;
    HostStream stream;
    std::vector<float> x(10, 1);
    if (mesh.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    mesh.axis(Axis::tensor).all_reduce(floats(x), Reduction::sum, stream);
    EXPECT_EQ(x, std::vector<float>(10, 2));
  });
}

TEST(Mistakes, ARankThatFailsWakesTheOthers) {
  std::atomic<int> woken{0};
  const std::string message = message_of([&] {
    run_on_threads(MeshShape(4, 1, 1), [&](Mesh& mesh) {
      HostStream stream;
      std::vector<float> x(10);
      if (mesh.rank() == 2) throw Error("the disk is full");
      const std::string here =
          message_of([&] { mesh.world().all_reduce(floats(x), Reduction::sum, stream); });
      EXPECT_THAT(here, testing::EndsWith("rank 2 has failed: the disk is full"));
      ++woken;
    });
  });
  EXPECT_EQ(message, "the disk is full");
  EXPECT_EQ(woken, 3);
}

TEST(Mistakes, AMessageOfAnotherSizeThanItsReceiveIsAnError) {
  const std::string message = message_of([&] {
    run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
      HostStream stream;
      char data[8] = "";
      const Message mine{1 - mesh.rank(), data, mesh.rank() == 0 ? 8 : 4};
      if (mesh.rank() == 0) mesh.world().exchange({&mine, 1}, {}, stream);
      if (mesh.rank() == 1) mesh.world().exchange({}, {&mine, 1}, stream);
    });
  });
  EXPECT_THAT(message, HasSubstr("a message of 8 bytes meets a receive of 4"));
}

TEST(Mistakes, ARankThatGivesUpNotifiesItsGroup) {
  std::atomic<bool> failed{false};
  run_on_threads(MeshShape(3, 1, 1),
                 [&](Mesh& mesh) {
                   HostStream stream;
                   std::vector<float> x(10);
                   const Message mine{mesh.rank() == 0 ? 2 : 0, x.data(), mesh.rank() == 0 ? 8 : 4};
                   const auto message = message_of([&] {
                     if (mesh.rank() == 0) mesh.world().exchange({&mine, 1}, {}, stream);
                     if (mesh.rank() == 2) mesh.world().exchange({}, {&mine, 1}, stream);
                     if (mesh.rank() == 1)
                       mesh.world().all_reduce(floats(x), Reduction::sum, stream);
                   });
                   if (mesh.rank() == 1) {
                     EXPECT_THAT(message, AllOf(HasSubstr("has given up: "),
                                                HasSubstr("meets a receive of 4")));
                     failed = true;
                   }
                   while (!failed) std::this_thread::yield();
                 },
                 {.timeout_s = 60});
}

TEST(Mistakes, SizesThatDoNotFitAreErrorsAtTheCall) {
  for (int ranks : {1, 2})
    run_on_threads(MeshShape(ranks, 1, 1), [&](Mesh& mesh) {
      HostStream stream;
      Communicator& group = mesh.world();
      std::vector<float> a(10), b(7), c(4);
      EXPECT_THROW(group.reduce_scatter(floats(a), floats(b), Reduction::sum, stream), Error);
      EXPECT_THROW(group.all_gather(floats(b), floats(a), stream), Error);
      EXPECT_THROW(group.broadcast(floats(a), ranks, stream), Error);
      EXPECT_THROW(group.broadcast(floats(a), -1, stream), Error);
      const Message absent{ranks, a.data(), 4};
      EXPECT_THROW(group.exchange({&absent, 1}, {&absent, 1}, stream), Error);
      if (ranks == 2) {
        const Elements crooked{c.data() + 1, 2, DType::f32};
        EXPECT_THAT(
            message_of([&] { group.reduce_scatter(floats(c), crooked, Reduction::sum, stream); }),
            HasSubstr("overlaps"));
        EXPECT_THAT(message_of([&] {
                      group.all_reduce({c.data(), 4, DType::u8}, Reduction::sum, stream);
                    }),
                    HasSubstr("u8"));
      }
    });
}

/// The errors of a reduce-scatter of 10 f32 and of an all-gather of them in `counts`.
std::string message_of_parts(Communicator& group, const std::vector<Index>& counts, Elements part) {
  HostStream stream;
  std::vector<float> all(10);
  const std::string scatter = message_of(
      [&] { group.reduce_scatter(floats(all), part, Reduction::sum, stream, {counts}); });
  const std::string gather =
      message_of([&] { group.all_gather(part, floats(all), stream, {counts}); });
  return scatter + '\n' + gather;
}

TEST(Mistakes, PartsThatDoNotFitAreErrorsAtTheCall) {
  run_on_threads(MeshShape(2, 1, 1), [](Mesh& mesh) {
    std::vector<float> memory(10);
    const int rank = mesh.rank();
    const auto message = [&](const std::vector<Index>& counts, Index mine) {
      return message_of_parts(mesh.axis(Axis::data), counts, {memory.data(), mine, DType::f32});
    };
    EXPECT_THAT(message({7, 2, 1}, 7),
                AllOf(HasSubstr("data group: reduce_scatter in 3 parts; it must be 2, one for "),
                      HasSubstr("data group: all_gather in 3 parts; it must be 2, one for ")));
    EXPECT_THAT(message({11, -1}, 11),
                AllOf(HasSubstr("data group: reduce_scatter of 10 f32 whose part 0 has 11 "),
                      HasSubstr("data group: all_gather of 10 f32 whose part 0 has 11 ")));
    EXPECT_THAT(message({10, -1}, 10),
                AllOf(HasSubstr("reduce_scatter of 10 f32 whose part 1 has -1 elements; "),
                      HasSubstr("all_gather of 10 f32 whose part 1 has -1 elements; ")));
    const Index mine = rank == 0 ? 7 : 2;
    EXPECT_THAT(
        message({7, 2}, mine),
        AllOf(HasSubstr(str("data group: reduce_scatter in 2 parts of 9 elements from 10 f32 to ",
                            mine, " f32; the input must have 9 and the output of rank ", rank)),
              HasSubstr(str("data group: all_gather in 2 parts of 9 elements from ", mine,
                            " f32 to 10 f32; the output must have 9"))));
    EXPECT_THAT(message({7, 3}, 4),
                AllOf(HasSubstr("reduce_scatter in 2 parts of 10 elements from 10 f32 to 4 f32"),
                      HasSubstr("all_gather in 2 parts of 10 elements from 4 f32 to 10 f32")));
  });
}

TEST(Mistakes, APartAtThePlaceThatItWouldHaveInAnEqualCutOverlaps) {
  run_on_threads(MeshShape(2, 1, 1), [](Mesh& mesh) {
    if (mesh.rank() == 0) return;
    HostStream stream;
    std::vector<float> all(10);
    const std::array<Index, 2> counts = {7, 3};
    const Elements crooked{all.data() + 5, 3, DType::f32};
    EXPECT_THAT(message_of([&] {
                  mesh.world().reduce_scatter(floats(all), crooked, Reduction::sum, stream,
                                              {counts});
                }),
                HasSubstr("only as its part 1, but it overlaps it from byte 20"));
  });
}

/// The error of 4 ranks, 2 on a node, of which those from `first` on cut otherwise.
std::string message_of_another_cut(int first, bool gathers) {
  return message_of([&] {
    run_on_threads(
        MeshShape(4, 1, 1),
        [&](Mesh& mesh) {
          HostStream stream;
          const bool other = mesh.rank() >= first;
          const std::vector<Index> counts =
              other ? std::vector<Index>{10, 20, 30, 40} : std::vector<Index>{40, 30, 20, 10};
          std::vector<float> all(100);
          std::vector<float> part(
              static_cast<std::size_t>(counts[static_cast<std::size_t>(mesh.rank())]));
          Communicator& group = mesh.axis(Axis::data);
          if (gathers) group.all_gather(floats(part), floats(all), stream, {counts});
          group.reduce_scatter(floats(all), floats(part), Reduction::sum, stream, {counts});
        },
        {.ranks_per_node = 2, .timeout_s = 60});
  });
}

TEST(Mistakes, RanksThatCutOtherwiseFail) {
  for (int first : {1, 2}) {  // on the same node, on another
    EXPECT_THAT(message_of_another_cut(first, false),
                testing::ContainsRegex(
                    "data group: operation 1 is reduce_scatter sum of 100 f32 in unequal parts "
                    ".*hash [0-9]+.* on rank .* but .*of 100 f32 in unequal parts .*hash [0-9]+"));
    EXPECT_THAT(message_of_another_cut(first, true),
                HasSubstr("data group: operation 1 is all_gather of 100 f32 in unequal parts"));
  }
}

TEST(Agree, TheLowestFailingRankSpeaksForAll) {
  for (int ranks : {1, 3, 4})
    run_on_threads(MeshShape(ranks, 1, 1), [&](Mesh& mesh) {
      HostStream stream;
      int done = 0;
      agree({mesh, stream}, [&] { ++done; });
      EXPECT_EQ(done, 1);
      const std::string message = message_of([&] {
        agree({mesh, stream}, [&] {
          if (mesh.rank() != 1 || ranks == 1) throw Error(str("disk ", mesh.rank(), " is full"));
        });
      });
      EXPECT_EQ(message, "rank 0: disk 0 is full");
      const std::string other = message_of([&] {
        agree({mesh, stream}, [&] {
          if (mesh.rank() == ranks - 1) throw std::runtime_error("odd");
        });
      });
      EXPECT_EQ(other, str("rank ", ranks - 1, ": odd"));
      mesh.world().barrier();
    });
}

TEST(Agree, StringsOfAllRanksComeInTheirOrder) {
  run_on_threads(MeshShape(3, 1, 1), [&](Mesh& mesh) {
    HostStream stream;
    const std::string mine(static_cast<std::size_t>(mesh.rank()) * 3,
                           static_cast<char>('a' + mesh.rank()));
    EXPECT_THAT(gather_strings({mesh, stream}, mine), testing::ElementsAre("", "bbb", "cccccc"));
  });
}

TEST(Agree, ListsOfAllRanksKeepTheirStrings) {
  using List = std::vector<std::string>;
  run_on_threads(MeshShape(3, 1, 1), [&](Mesh& mesh) {
    HostStream stream;
    const std::vector<List> lists = {{"one", "", "two\nlines"}, {}, {"three"}};
    EXPECT_EQ(gather_lists({mesh, stream}, lists[static_cast<std::size_t>(mesh.rank())]), lists);
  });
}

}  // namespace
}  // namespace trireme
