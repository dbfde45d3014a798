// Signs from readings over time: what is new is found once, and figures decide by their course.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/observe/gpu_health/health_watch.h"

namespace trireme::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> texts(const std::vector<HealthFinding>& findings) {
  std::vector<std::string> all;
  for (const HealthFinding& finding : findings)
    all.push_back(std::string(name(finding.action)) + ": " + text_of(finding));
  return all;
}

GpuReading well() {
  GpuReading reading;
  reading.recovery_action = reading.corrected_ecc = reading.uncorrected_ecc = 0;
  reading.nvlink_errors = 0;
  reading.remap_pending = reading.remap_failed = false;
  reading.temperature = 50;
  reading.slowdown_temperature = 90;
  return reading;
}

class GpuHealthWatch : public testing::Test {
 protected:
  std::vector<std::string> read(const GpuReading& reading) {
    return texts(watch_.reading(reading));
  }
  std::vector<std::string> xid(std::uint64_t code) { return texts(watch_.event({3, true, code})); }
  HealthWatch watch_{3};
};

TEST_F(GpuHealthWatch, FindsNothingOnAGpuThatIsWell) {
  for (int i = 0; i < 10; ++i) EXPECT_THAT(read(well()), IsEmpty());
  EXPECT_THAT(read({}), IsEmpty());  // nor where the driver tells nothing
}

TEST_F(GpuHealthWatch, NamesAnXidOnce) {
  EXPECT_THAT(xid(79), ElementsAre("fatal: GPU 3: Xid 79: the GPU has fallen off the bus"));
  EXPECT_THAT(xid(79), IsEmpty());
}

TEST_F(GpuHealthWatch, NamesAnXidAgainWhenItGainsWeight) {
  EXPECT_THAT(xid(74), ElementsAre("report: GPU 3: Xid 74: an NVLink error"));
  EXPECT_THAT(xid(74), ElementsAre("fatal: GPU 3: Xid 74: NVLink errors, repeated"));
  EXPECT_THAT(xid(74), IsEmpty());
}

TEST_F(GpuHealthWatch, NamesAnXidThatIsNotInTheTable) {
  EXPECT_THAT(xid(999), ElementsAre("report: GPU 3: Xid 999: not in the table of rules"));
}

TEST_F(GpuHealthWatch, NamesStatesThatHoldFromTheStart) {
  GpuReading reading = well();
  reading.remap_pending = true;
  reading.recovery_action = 1;
  EXPECT_THAT(
      read(reading),
      ElementsAre(
          "fatal: GPU 3: recovery action 1: the driver asks for a reset of the GPU",
          "leave: GPU 3: remap pending: a bad row of memory is remapped at the next reset"));
  EXPECT_THAT(read(reading), IsEmpty());
}

TEST_F(GpuHealthWatch, ALostGpuIsOneFinding) {
  GpuReading lost;
  lost.lost = true;
  EXPECT_THAT(read(lost),
              ElementsAre("fatal: GPU 3: GPU lost: the driver no longer reaches the GPU"));
  EXPECT_THAT(read(lost), IsEmpty());
}

TEST_F(GpuHealthWatch, ErrorsFromBeforeTheJobAreNoSign) {
  GpuReading reading = well();
  reading.uncorrected_ecc = 7;
  reading.nvlink_errors = 100;
  EXPECT_THAT(read(reading), IsEmpty());
  EXPECT_THAT(read(reading), IsEmpty());
  reading.uncorrected_ecc = 8;
  EXPECT_THAT(read(reading),
              ElementsAre("leave: GPU 3: uncorrected ECC: an error of memory was not "
                          "corrected (1 more)"));
}

TEST_F(GpuHealthWatch, AFewCorrectedErrorsAreNormalAndABurstIsNot) {
  GpuReading reading = well();
  for (int i = 0; i < 20; ++i) {
    *reading.corrected_ecc += 2;
    EXPECT_THAT(read(reading), IsEmpty()) << i;
  }
  *reading.corrected_ecc += 20;  // ten times as many
  EXPECT_THAT(read(reading), IsEmpty());
  *reading.corrected_ecc += 21;
  EXPECT_THAT(read(reading), testing::SizeIs(1));
}

TEST_F(GpuHealthWatch, HeatIsReportedWithItsFigures) {
  GpuReading reading = well();
  reading.temperature = 86;
  EXPECT_THAT(read(reading), IsEmpty());
  reading.temperature = 87;
  EXPECT_THAT(read(reading), ElementsAre("report: GPU 3: temperature: 3 degrees below the slowdown "
                                         "temperature, or hotter (87 C, slowdown at 90 C)"));
}

TEST_F(GpuHealthWatch, LowClocksAreReportedAfterATenthOfAMinute) {
  const ClockLimits hot{.thermal = true, .power_brake = false}, free{};
  int found = 0;
  for (int second = 0; second <= 6; ++second)  // 6 s of 60 are not more than a tenth
    found += static_cast<int>(watch_.clocks(hot, second).size());
  EXPECT_EQ(found, 0);
  EXPECT_THAT(texts(watch_.clocks(hot, 7)), testing::SizeIs(1));
  for (int second = 8; second < 30; ++second) EXPECT_THAT(watch_.clocks(hot, second), IsEmpty());
  HealthWatch other(0);
  for (int second = 0; second < 600; ++second)  // one second in each 20
    EXPECT_THAT(other.clocks(second % 20 == 0 ? hot : free, second), IsEmpty()) << second;
}

TEST_F(GpuHealthWatch, AGapBetweenLooksIsNotCountedAsLowClocks) {
  const ClockLimits hot{.thermal = true, .power_brake = false};
  watch_.clocks(hot, 0);
  EXPECT_THAT(watch_.clocks(hot, 50), IsEmpty());
}

}  // namespace
}  // namespace trireme::observe
