// The time line of a run: which steps of which jobs belong to its newest state, and its file.
#include "runtime/store/tiers/time_line.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/checksum.h"
#include "runtime/store/file.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Part = TimeLine::Part;

TEST(TimeLine, HasAllStepsOfTheNewestJobAndThoseOfOthersUpToWhereTheNextOneBegan) {
  TimeLine line;
  EXPECT_FALSE(line.has(1, "a"));
  line.begin("a", {}, true);
  EXPECT_TRUE(line.has(1000, "a"));
  line.begin("b", {2, 30, "memory"}, true);
  EXPECT_TRUE(line.has(30, "a"));
  EXPECT_FALSE(line.has(31, "a"));
  EXPECT_TRUE(line.has(31, "b"));
  line.begin("c", {3, 40, "durable"}, true);
  EXPECT_TRUE(line.has(30, "a"));
  EXPECT_TRUE(line.has(40, "b"));
  EXPECT_FALSE(line.has(41, "b"));
  EXPECT_FALSE(line.has(31, "another"));
}

TEST(TimeLine, AbandonsWhatWasMadeAfterAStepToWhichAJobGoesBack) {
  TimeLine line;
  line.begin("a", {1, 0, ""}, true);
  line.begin("b", {2, 30, "memory"}, true);
  line.begin("c", {3, 20, "durable"}, true);
  EXPECT_THAT(line.parts(), ElementsAre(Part{"a", 20}, Part{"b", 20}, Part{"c", TimeLine::no_end}));
  line.begin("d", {4, 40, "memory"}, true);  // a later job gives nothing back
  EXPECT_FALSE(line.has(21, "a") || line.has(21, "b") || line.has(41, "c"));
}

TEST(TimeLine, BeginsAnewWithAJobThatDoesNotResume) {
  TimeLine line;
  line.begin("a", {}, true);
  line.begin("b", {2, 30, "durable"}, false);
  EXPECT_THAT(line.parts(), ElementsAre(Part{"b", TimeLine::no_end}));
  line.begin("c", {3, 0, ""}, true);  // nothing was there to resume from
  EXPECT_THAT(line.parts(), ElementsAre(Part{"c", TimeLine::no_end}));
}

TEST(TimeLine, ForgetsTheOldestOfManyJobs) {
  TimeLine line;
  for (Index job = 0; job < 1000; ++job)
    line.begin(std::to_string(job), {job, job + 1, "memory"}, true);
  EXPECT_EQ(line.parts().size(), 100u);
  EXPECT_TRUE(line.has(950, "950"));
  EXPECT_FALSE(line.has(1, "1"));
}

TEST(TimeLineFile, HasAllOfIt) {
  const ScratchDirectory folder;
  EXPECT_FALSE(read_time_line(folder / "").has_value());
  TimeLine line;
  line.begin("a", {1, 0, ""}, true);
  line.begin("b", {2, 30, "memory"}, true);
  for (const char* disk : {"/scratch", "/nvme", "/scratch"}) line.add_disk(disk);
  for (int twice = 0; twice < 2; ++twice) write_time_line(folder / "", line);
  const auto read = read_time_line(folder / "");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->parts(), line.parts());
  EXPECT_EQ(read->start().attempt, 2);
  EXPECT_EQ(read->start().step, 30);
  EXPECT_EQ(read->start().tier, "memory");
  EXPECT_THAT(read->disks(), ElementsAre("/scratch", "/nvme"));
  EXPECT_THAT(list_directory(folder / ""), ElementsAre(time_line_name));
}

TEST(TimeLineFile, OfAnOlderVersionNamesOneDirectory) {
  const std::string text =
      R"({"what":"trireme time line","format":1,"attempt":2,"step":30,"tier":"memory",)"
      R"("jobs":[{"job":"a"}],"disk":"/nvme"})"
      "\n";
  EXPECT_THAT(parse_time_line(with_checksum(text)).disks(), ElementsAre("/nvme"));
}

TEST(TimeLineFile, IsRefusedWhereItIsDamagedAtAnyByte) {
  TimeLine line;
  line.begin("a", {1, 0, ""}, true);
  const std::string text = to_text(line);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_THROW(parse_time_line(damaged), Error) << at;
    EXPECT_THROW(parse_time_line(text.substr(0, at)), Error) << at;
  }
  const ScratchDirectory folder;
  std::ofstream(folder / time_line_name) << "{}";
  EXPECT_THAT(message_of([&] { read_time_line(folder / ""); }),
              HasSubstr("time-line.json: the time line is cut short"));
}

}  // namespace
}  // namespace trireme::store
