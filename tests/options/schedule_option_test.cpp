// --schedule with the other options of the pipeline: what it cannot run is refused.
#include <gtest/gtest.h>

#include "trireme/options/options.h"
#include "trireme/options/problems.h"

#include "tests/support/recorded_problems.h"

namespace trireme {
namespace {

std::vector<std::string> problems_of_schedule(const std::vector<const char*>& options) {
  Options o;
  CommandLine command("program", "");
  declare_options(command, o);
  test::RecordedProblems problems;
  std::vector<const char*> words{"program"};
  words.insert(words.end(), options.begin(), options.end());
  command.parse(static_cast<int>(words.size()), words.data(), problems);
  derive_defaults(command, o);
  check_options(command, o, 2, problems);
  return problems.all();
}

TEST(ScheduleOption, OfOneChunkIsRefusedWithSeveral) {
  EXPECT_EQ(problems_of_schedule({"--pp", "2", "--num-virtual-stages-per-pipeline-rank", "2",
                                  "--schedule", "zero-bubble"}),
            std::vector<std::string>{
                "--schedule zero-bubble, --num-virtual-stages-per-pipeline-rank 2: zero-bubble "
                "runs one chunk a stage, not 2; use 1 chunk, or the schedule 'interleaved'"});
  EXPECT_EQ(problems_of_schedule({"--pp", "2", "--schedule", "zero-bubble"}),
            std::vector<std::string>());
}

TEST(ScheduleOption, OfTwoChunksHasThemByDefault) {
  EXPECT_EQ(problems_of_schedule({"--pp", "2", "--schedule", "zero-bubble-v"}),
            std::vector<std::string>());
  EXPECT_EQ(problems_of_schedule({"--pp", "2", "--schedule", "zero-bubble-v",
                                  "--num-virtual-stages-per-pipeline-rank", "3"}),
            std::vector<std::string>{
                "--schedule zero-bubble-v, --num-virtual-stages-per-pipeline-rank 3: zero-bubble-v "
                "runs two chunks a stage, not 3; use 2 chunks, or the schedule 'interleaved'"});
}

TEST(ScheduleOption, OfTwoChunksMayBeTheDefaultOfAProgram) {
  Options o;
  o.schedule = ScheduleKind::zero_bubble_v;
  CommandLine command("program", "");
  declare_options(command, o);
  test::RecordedProblems problems;
  const char* words[] = {"program", "--pp", "2"};
  command.parse(3, words, problems);
  derive_defaults(command, o);
  EXPECT_EQ(o.schedule, ScheduleKind::zero_bubble_v);
  EXPECT_EQ(o.chunks, 2);
}

}  // namespace
}  // namespace trireme
