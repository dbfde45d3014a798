// The pace of copies to partners: never more than a tenth of the time.
#include <gtest/gtest.h>

#include "runtime/checkpoint/tiers/slot_transfer.h"

namespace trireme::checkpoint {
namespace {

/// Which part of the time pieces take: `wire_s` on the network, `host_s` of the thread that polls
/// every `poll_s`.
double part_of_time(double wire_s, double host_s, double poll_s) {
  constexpr int pieces = 100;
  TransferPace pace;
  pace.begin(0);
  pace.started(0);
  double now = 0, arrives = wire_s;
  bool under_way = true;
  for (int done = 0; done < pieces; now += poll_s) {
    if (under_way && now >= arrives) {
      pace.ended(now);
      pace.worked(host_s);
      under_way = false;
      ++done;
    }
    if (under_way || !pace.may_start(now)) continue;
    pace.started(now);
    arrives = now + wire_s;
    under_way = true;
  }
  return pieces * std::max(wire_s, host_s) / now;
}

TEST(TransferPace, LeavesNineTenthsOfTheTimeToTraining) {
  EXPECT_LE(part_of_time(0.004, 0, 0.0001), 0.1);
  EXPECT_LE(part_of_time(0, 0.004, 0.0001), 0.1);
  EXPECT_LE(part_of_time(0.004, 0.002, 0.0001), 0.1);
}

TEST(TransferPace, UsesWhatItMay) {
  EXPECT_GE(part_of_time(0.004, 0, 0.0001), 0.095);
  EXPECT_GE(part_of_time(0, 0.004, 0.0001), 0.095);
}

TEST(TransferPace, CountsAPieceByTheQuickestAndNotByWhenItsEndIsSeen) {
  TransferPace pace;
  pace.begin(0);
  pace.started(0);
  pace.ended(0.004);
  pace.started(0.1);
  pace.ended(1.1);  // nothing has polled for a second
  EXPECT_FALSE(pace.may_start(0.11));
  EXPECT_TRUE(pace.may_start(0.13));
}

TEST(TransferPace, JudgesTheNetworkByWholePiecesOnly) {
  TransferPace pace;
  pace.begin(0);
  pace.started(0);
  pace.ended(0.000001, false);
  pace.started(1);
  pace.ended(1.1);
  EXPECT_FALSE(pace.may_start(1.9));
  EXPECT_TRUE(pace.may_start(2.1));
}

TEST(TransferPace, BeginsAnewWithEachTransfer) {
  TransferPace pace;
  pace.begin(0);
  pace.worked(100);
  EXPECT_FALSE(pace.may_start(10));
  pace.begin(20);
  EXPECT_TRUE(pace.may_start(20));
}

}  // namespace
}  // namespace trireme::checkpoint
