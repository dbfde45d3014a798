#include "tests/virtual_clock/queues.h"

#include <gmock/gmock.h>

#include "tests/support/message_of.h"

namespace trireme::virtual_clock {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr auto all_reduce = CollectiveWork::Kind::all_reduce;

CollectiveWork of(double bytes) { return {all_reduce, 2, bytes}; }
/// A byte takes a second.
CollectiveQueue collectives() {
  return {2, [](const CollectiveWork& work) { return work.bytes; }};
}
ExchangeQueue exchanges(int members) {
  return {members, [](Index bytes, int, int) { return static_cast<double>(bytes); }};
}
Message message(int peer, Index bytes) { return {peer, nullptr, bytes}; }

TEST(CollectiveQueue, BeginsWhenTheLastMemberArrives) {
  CollectiveQueue queue = collectives();
  EXPECT_EQ(queue.start(0, of(5), 3), 0);
  EXPECT_EQ(queue.end(0), std::nullopt);
  EXPECT_EQ(queue.start(1, of(5), 10), 0);
  EXPECT_THAT(queue.end(0), Optional(Eq(15.0)));
  queue.start(0, of(5), 40);
  queue.start(1, of(5), 30);
  EXPECT_THAT(queue.end(1), Optional(Eq(45.0)));
}

TEST(CollectiveQueue, RunsOneAfterTheOther) {
  CollectiveQueue queue = collectives();
  for (const int member : {0, 1}) {
    queue.start(member, of(5), 0);
    queue.start(member, of(7), 1);
    queue.start(member, of(1), 20);
  }
  EXPECT_THAT(queue.end(1), Optional(Eq(12.0)));
  EXPECT_THAT(queue.end(2), Optional(Eq(21.0)));
}

TEST(CollectiveQueue, RefusesMembersThatDisagree) {
  CollectiveQueue queue = collectives();
  queue.start(1, of(5), 0);
  EXPECT_EQ(message_of([&] { queue.start(0, of(6), 0); }),
            "member 1 starts all_reduce of 5 bytes as collective 0, and member 0 all_reduce of 6");
}

TEST(ExchangeQueue, BeginsWhenBothSidesAreThere) {
  ExchangeQueue queue = exchanges(2);
  const Message send = message(1, 4), receive = message(0, 4);
  queue.start(0, {&send, 1}, {}, 2);
  EXPECT_EQ(queue.end(0, 0), std::nullopt);
  queue.start(1, {}, {&receive, 1}, 7);
  EXPECT_THAT(queue.end(0, 0), Optional(Eq(11.0)));
  EXPECT_THAT(queue.end(1, 0), Optional(Eq(11.0)));
}

// Member 1 first waits for 2, then receives from 0: 0 waits as well.
TEST(ExchangeQueue, WaitsForTheExchangesBeforeItOnBothSides) {
  ExchangeQueue queue = exchanges(3);
  const Message to_one = message(1, 4), from_zero = message(0, 4), from_two = message(2, 3);
  queue.start(0, {&to_one, 1}, {}, 0);
  queue.start(1, {}, {&from_two, 1}, 0);
  queue.start(1, {}, {&from_zero, 1}, 1);
  EXPECT_EQ(queue.end(0, 0), std::nullopt);
  const Message three = message(1, 3);
  queue.start(2, {&three, 1}, {}, 10);
  EXPECT_THAT(queue.end(1, 0), Optional(Eq(13.0)));
  EXPECT_THAT(queue.end(0, 0), Optional(Eq(17.0)));
  EXPECT_THAT(queue.end(1, 1), Optional(Eq(17.0)));
}

TEST(ExchangeQueue, TakesTheLongestOfItsMessages) {
  ExchangeQueue queue = exchanges(2);
  const Message send = message(1, 4), receive = message(1, 6);
  const Message other_send = message(0, 6), other_receive = message(0, 4);
  queue.start(0, {&send, 1}, {&receive, 1}, 0);
  queue.start(1, {&other_send, 1}, {&other_receive, 1}, 0);
  EXPECT_THAT(queue.end(0, 0), Optional(Eq(6.0)));
}

TEST(ExchangeQueue, RefusesAReceiveOfAnotherSize) {
  ExchangeQueue queue = exchanges(2);
  const Message send = message(1, 4), receive = message(0, 5);
  queue.start(0, {&send, 1}, {}, 0);
  EXPECT_THAT(message_of([&] {
                queue.start(1, {}, {&receive, 1}, 0);
              }),
              HasSubstr("from member 0 to 1 has 4 bytes, and its receive 5"));
}

}  // namespace
}  // namespace trireme::virtual_clock
