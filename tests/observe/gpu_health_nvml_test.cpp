// NVML through a library that answers from a file (fake_nvml): what is read of it, and the findings
// of the thread that watches.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/observe/gpu_health/health_monitor.h"
#include "runtime/observe/gpu_health/nvml.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuHealthNvml : public testing::Test {
 protected:
  GpuHealthNvml() {
    ::setenv("TRIREME_NVML", TRIREME_FAKE_NVML, 1);
    ::setenv("FAKE_NVML", state_.c_str(), 1);
  }
  ~GpuHealthNvml() override {
    ::unsetenv("TRIREME_NVML");
    ::unsetenv("FAKE_NVML");
  }
  void add(const std::string& lines) const { std::ofstream(state_, std::ios::app) << lines; }
  static std::unique_ptr<Nvml> open() {
    std::string reason;
    auto nvml = Nvml::open(reason);
    EXPECT_NE(nvml, nullptr) << reason;
    return nvml;
  }

  ScratchDirectory folder_;
  std::string state_ = folder_.write("gpus", "gpus 2\n");
};

TEST_F(GpuHealthNvml, IsReadByGpu) {
  add("gpu1.temperature 71\ngpu1.slowdown 91\ngpu1.pending 1\ngpu1.recovery 4\n"
      "gpu1.corrected 5\ngpu1.uncorrected 2\ngpu1.link_errors 3\ngpu1.reasons 64\n"
      "gpu1.links 18\ngpu1.links_up 17\ngpu1.pcie_width 8\n");
  const auto nvml = open();
  ASSERT_EQ(nvml->gpus(), 2);
  EXPECT_EQ(nvml->driver_version(), "fake 1.0");
  const GpuReading well = nvml->read(0), reading = nvml->read(1);
  EXPECT_FALSE(well.lost);
  EXPECT_EQ(well.recovery_action, 0U);
  EXPECT_EQ(well.remap_pending, false);
  EXPECT_EQ(reading.recovery_action, 4U);
  EXPECT_EQ(reading.remap_pending, true);
  EXPECT_EQ(reading.remap_failed, false);
  EXPECT_EQ(reading.temperature, 71);
  EXPECT_EQ(reading.corrected_ecc, 5U);
  EXPECT_EQ(reading.uncorrected_ecc, 2U);
  EXPECT_EQ(reading.nvlink_errors, 15U);  // five counters of its link
  EXPECT_TRUE(nvml->clock_limits(1).thermal);
  EXPECT_FALSE(nvml->clock_limits(0).thermal);
  const GpuFacts facts = nvml->facts(1);
  EXPECT_EQ(facts.uuid, "GPU-00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(facts.nvlinks, 18);
  EXPECT_EQ(facts.nvlinks_up, 17);
  EXPECT_EQ(facts.pcie_width, 8);
  EXPECT_EQ(facts.most_pcie_width, 16);
}

TEST_F(GpuHealthNvml, ALostGpuIsSeenAsLostFromTheStartToo) {
  const auto before = open();
  add("gpu0.lost 1\n");
  EXPECT_TRUE(before->read(0).lost);
  EXPECT_FALSE(before->read(1).lost);
  EXPECT_TRUE(open()->read(0).lost);
}

TEST_F(GpuHealthNvml, XidsAreThoseAfterTheStartOnly) {
  add("gpu0.xid 31\ngpu0.xid_count 3\n");
  const auto nvml = open();
  ASSERT_TRUE(nvml->watch(0));
  EXPECT_FALSE(nvml->wait(1));
  add("gpu0.xid 79\ngpu0.xid_count 4\n");
  const auto event = nvml->wait(1);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->gpu, 0);
  EXPECT_TRUE(event->is_xid);
  EXPECT_EQ(event->xid, 79U);
}

TEST_F(GpuHealthNvml, EccErrorsThatAreNotCorrectedAreEventsOfTheirOwn) {
  add("gpu1.double_bits 3\ngpu0.no_ecc 1\n");
  const auto nvml = open();
  ASSERT_TRUE(nvml->watch(0));  // of Xids alone
  ASSERT_TRUE(nvml->watch(1));
  EXPECT_FALSE(nvml->wait(1));
  add("gpu0.double_bits 1\ngpu1.double_bits 4\n");
  const auto event = nvml->wait(1);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->gpu, 1);
  EXPECT_FALSE(event->is_xid);
  EXPECT_FALSE(nvml->wait(1)) << "GPU 0 has no ECC";
  add("gpu0.xid 79\ngpu0.xid_count 1\n");
  const auto xid = nvml->wait(1);
  ASSERT_TRUE(xid);
  EXPECT_EQ(xid->gpu, 0);
  EXPECT_TRUE(xid->is_xid);
}

TEST_F(GpuHealthNvml, UsedMemoryIsThatOfTheGpuWhereItIsKnown) {
  add("gpu0.used 12884901888\ngpu1.used 5\n");
  const auto nvml = open();
  EXPECT_EQ(nvml->used_memory(0), std::uint64_t{12884901888});
  EXPECT_EQ(nvml->used_memory(1), 5U);
  add("gpu1.no_memory 1\n");
  EXPECT_EQ(nvml->used_memory(1), std::nullopt);
  add("gpu0.lost 1\n");
  EXPECT_EQ(nvml->used_memory(0), std::nullopt);
}

/// What the driver says before and after something happens to GPU 0, and what is then found.
struct Happening {
  HealthSign sign;
  const char *before, *after, *found;
};
const Happening happenings[] = {
    {HealthSign::xid, "", "xid 79\ngpu0.xid_count 1", "fatal: GPU 0: Xid 79: "},
    {HealthSign::xid, "", "xid 13\ngpu0.xid_count 1", "program: GPU 0: Xid 13: "},
    {HealthSign::xid, "", "xid 63\ngpu0.xid_count 1", "leave: GPU 0: Xid 63: "},
    {HealthSign::recovery_action, "", "recovery 1", "fatal: GPU 0: recovery action 1: "},
    {HealthSign::recovery_action, "", "recovery 4", "leave: GPU 0: recovery action 4: "},
    {HealthSign::gpu_lost, "", "lost 1", "fatal: GPU 0: GPU lost: "},
    {HealthSign::uncorrected_ecc, "uncorrected 3", "uncorrected 4",
     "leave: GPU 0: uncorrected ECC: an error of memory was not corrected (1 more)"},
    {HealthSign::uncorrected_ecc, "", "double_bits 1",
     "leave: GPU 0: uncorrected ECC: an error of memory was not corrected"},
    {HealthSign::corrected_ecc_rate, "corrected 2", "corrected 100",
     "leave: GPU 0: corrected ECC rate: "},
    {HealthSign::remap_failed, "", "failed 1", "fatal: GPU 0: remap failed: "},
    {HealthSign::remap_pending, "", "pending 1", "leave: GPU 0: remap pending: "},
    {HealthSign::nvlink_errors, "link_errors 7", "link_errors 8",
     "report: GPU 0: NVLink errors: errors of NVLink were corrected by sending again (5 more)"},
    {HealthSign::thermal_slowdown, "", "reasons 32", "report: GPU 0: thermal slowdown: "},
    {HealthSign::thermal_slowdown, "", "reasons 64", "report: GPU 0: thermal slowdown: "},
    {HealthSign::power_brake, "", "reasons 128", "report: GPU 0: power brake: "},
    {HealthSign::temperature, "slowdown 91", "temperature 88", "report: GPU 0: temperature: "},
};

/// All that is found within a minute, as the monitor asks; some readings precede it.
std::vector<std::string> found_within_a_minute(Nvml& nvml, const std::function<void()>& happen) {
  HealthWatch watch(0);
  EXPECT_TRUE(nvml.watch(0));
  for (int i = 0; i < 10; ++i) EXPECT_THAT(watch.reading(nvml.read(0)), testing::IsEmpty());
  happen();
  std::vector<std::string> all;
  const auto add = [&](const std::vector<HealthFinding>& found) {
    for (const HealthFinding& finding : found)
      all.push_back(str(name(finding.action), ": ", text_of(finding)));
  };
  for (int second = 0; second < 60; ++second) {
    if (const auto event = nvml.wait(0)) add(watch.event(*event));
    add(watch.clocks(nvml.clock_limits(0), second));
    if (second % 10 == 0) add(watch.reading(nvml.read(0)));
  }
  return all;
}

TEST_F(GpuHealthNvml, EverySignOfTheTableIsFoundThroughTheLibrary) {
  std::set<HealthSign> signs;
  for (const Happening& each : happenings) {
    SCOPED_TRACE(each.after);
    std::ofstream(state_) << "gpus 1\n";
    if (*each.before != 0) add(str("gpu0.", each.before, "\n"));
    EXPECT_THAT(found_within_a_minute(*open(), [&] { add(str("gpu0.", each.after, "\n")); }),
                ElementsAre(testing::StartsWith(each.found)));
    signs.insert(each.sign);
  }
  EXPECT_EQ(signs.size(), static_cast<std::size_t>(health_sign_count));
}

TEST_F(GpuHealthNvml, WhatTheDriverAsksForComesBeforeTheSignsThatLedToIt) {
  const auto found = found_within_a_minute(*open(), [&] {
    add("gpu0.pending 1\ngpu0.failed 1\ngpu0.recovery 2\ngpu0.temperature 90\n");
  });
  ASSERT_EQ(found.size(), 4U);
  EXPECT_THAT(found[0], HasSubstr("recovery action 2: the driver asks for a reboot of the node"));
}

TEST_F(GpuHealthNvml, TheReasonIsSaidWhereThereIsNone) {
  ::setenv("TRIREME_NVML", "/nowhere/libnvidia-ml.so.1", 1);
  std::string reason;
  EXPECT_EQ(Nvml::open(reason), nullptr);
  EXPECT_THAT(reason, HasSubstr("/nowhere/libnvidia-ml.so.1"));
  ::setenv("TRIREME_NVML", TRIREME_FAKE_NVML, 1);
  ::unsetenv("FAKE_NVML");
  EXPECT_EQ(Nvml::open(reason), nullptr);
  EXPECT_THAT(reason, HasSubstr("nvmlInit_v2 returns 3"));
}

TEST_F(GpuHealthNvml, ALibraryWithoutAnyFunctionIsRefused) {
  ::setenv("TRIREME_NVML", "libm.so.6", 1);
  std::string reason;
  EXPECT_EQ(Nvml::open(reason), nullptr);
  EXPECT_THAT(reason, HasSubstr("libm.so.6"));
}

TEST_F(GpuHealthNvml, TheMonitorFindsWhatHappensWhileItRuns) {
  std::mutex mutex;
  std::vector<std::string> found;
  const auto has = [&](std::size_t count) {
    return test::wait_until([&] {
      const std::lock_guard lock(mutex);
      return found.size() >= count;
    });
  };
  add("gpu0.pending 1\n");
  {
    const HealthMonitor monitor(open(), {0, 1},
                                [&](const HealthFinding& finding) {
                                  const std::lock_guard lock(mutex);
                                  found.push_back(text_of(finding).substr(0, 20));
                                },
                                {.event_ms = 5, .clocks_s = 0.01, .reading_s = 0.01});
    ASSERT_TRUE(has(1));
    add("gpu1.xid 79\ngpu1.xid_count 1\n");
    ASSERT_TRUE(has(2));
    add("gpu1.lost 1\n");
    ASSERT_TRUE(has(3));
  }
  EXPECT_THAT(found,
              ElementsAre("GPU 0: remap pending", "GPU 1: Xid 79: the G", "GPU 1: GPU lost: the"));
}

TEST(GpuHealthReports, AreReadBackAndTornLinesLeftOut) {
  const ScratchDirectory folder;
  const std::string path = folder / "signs";
  const HealthReport report{"n05", 8, HealthAction::fatal, "GPU 3: Xid 79: \"gone\""};
  EXPECT_TRUE(append_health_report(path, report));
  EXPECT_TRUE(append_health_report(path, {"n06", 0, HealthAction::report, "warm"}));
  const std::string text = folder.read("signs");
  const std::size_t first = text.find('\n') + 1;
  for (std::size_t bytes = 0; bytes <= text.size(); ++bytes) {
    const auto reports = parse_health_reports(text.substr(0, bytes));
    ASSERT_EQ(reports.size(), bytes + 1 >= text.size() ? 2U
                              : bytes + 1 >= first     ? 1U
                                                       : 0U)
        << bytes;
    if (reports.empty()) continue;
    EXPECT_EQ(reports[0].host, "n05");
    EXPECT_EQ(reports[0].rank, 8);
    EXPECT_EQ(reports[0].action, HealthAction::fatal);
    EXPECT_EQ(reports[0].text, report.text);
  }
  EXPECT_FALSE(append_health_report(folder / "no/folder", report));
}

}  // namespace
}  // namespace trireme::observe
