// Pieces of work: in order, bounded, and the first failure is the one that is thrown.
#include "runtime/data/prepare/ordered_work.h"

#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/message_of.h"

namespace trireme::data {
namespace {

using Work = OrderedWork<Index, Index>;

/// The pieces 0 to count - 1.
auto numbers_below(Index count) {
  return [next = Index{0}, count]() mutable {
    return next < count ? std::optional<Index>(next++) : std::nullopt;
  };
}

TEST(OrderedWork, ResultsComeInTheOrderOfThePieces) {
  for (const int workers : {1, 3, 8}) {
    std::vector<Index> used, expected(500);
    std::iota(expected.begin(), expected.end(), Index{0});
    Work work({numbers_below(500),
               [] {
                 return [](Index& piece) {
                   if (piece % 7 == 0) std::this_thread::yield();
                   return piece;
                 };
               },
               [&](const Index& result) { used.push_back(result); }, [] {},
               [](const Index&) { return Index{1}; }},
              20);
    work.run(workers);
    EXPECT_EQ(used, expected);
  }
}

TEST(OrderedWork, HoldsNoMoreThanItsBoundButOneLargerPieceAlone) {
  std::atomic<Index> held{0}, most{0}, beside_the_large{0};
  const auto size = [](const Index& piece) { return piece == 50 ? Index{1000} : Index{3}; };
  Work work({[make = numbers_below(100), &size, &held, &most]() mutable {
               auto piece = make();
               if (piece) most = std::max(most.load(), held += size(*piece));
               return piece;
             },
             [] { return [](Index& piece) { return piece; }; },
             [&](const Index& piece) {
               if (piece == 0) {  // ten are under way, and one is made
                 while (held < 33) std::this_thread::yield();
                 std::this_thread::sleep_for(std::chrono::milliseconds(20));
                 EXPECT_EQ(held, 33);
               }
               if (piece == 50) beside_the_large = held - 1000;
               held -= size(piece);
             },
             [] {}, size},
            30);
  work.run(4);
  EXPECT_LE(most, 1000 + 30);      // the large one is made while others are under way
  EXPECT_LE(beside_the_large, 3);  // the next one is made, and waits
}

TEST(OrderedWork, ThrowsTheFirstFailureInOrderAfterUsingWhatIsBeforeIt) {
  for (const int workers : {1, 2, 7}) {
    Index used = 0;
    Work work({numbers_below(300),
               [] {
                 return [](Index& piece) {
                   require(piece < 100 || piece % 2 == 1, "piece ", piece);
                   return piece;
                 };
               },
               [&](const Index&) { ++used; }, [] {}, [](const Index&) { return Index{1}; }},
              40);
    EXPECT_EQ(message_of([&] { work.run(workers); }), "piece 100");
    EXPECT_EQ(used, 100);
  }
}

TEST(OrderedWork, ThrowsWhatEachStepThrows) {
  const auto message = [](const std::string& failing) {
    const auto fail = [=](const std::string& step) { require(step != failing, "in ", step); };
    Work work({[&, make = numbers_below(5)]() mutable {
                 fail("make");
                 return make();
               },
               [&] {
                 fail("worker");
                 return [&](Index& piece) {
                   fail("work");
                   return piece;
                 };
               },
               [&](const Index&) { fail("use"); }, [] {},
               [&](const Index&) {
                 fail("size");
                 return Index{1};
               }},
              2);
    return message_of([&] { work.run(2); });
  };
  for (const std::string step : {"make", "worker", "work", "use", "size"})
    EXPECT_EQ(message(step), "in " + step);
  EXPECT_EQ(message("none"), "");
}

TEST(OrderedWork, InterruptsAMakerThatWaits) {
  std::promise<void> interrupted;
  Work work({[&, make = numbers_below(1)]() mutable {
               auto piece = make();
               if (!piece) interrupted.get_future().wait();
               return piece;
             },
             [] { return [](Index&) -> Index { throw Error("a mistake"); }; }, [](const Index&) {},
             [&] { interrupted.set_value(); }, [](const Index&) { return Index{1}; }},
            10);
  EXPECT_EQ(message_of([&] { work.run(1); }), "a mistake");
}

}  // namespace
}  // namespace trireme::data
