// Programs that a command waits for, and the signals that end it meanwhile.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/core/process/child.h"
#include "runtime/core/process/processes.h"
#include "tests/support/message_of.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Why = ChildEnd::Why;

ChildEnd run_line(const std::string& line, const RunOptions& options = {}) {
  return run_program({"/bin/sh", "-c", line}, options);
}

TEST(RunProgram, ReturnsTheCodeAndWhatWasPrinted) {
  const ChildEnd end = run_line("echo yes; echo no >&2; exit 3");
  EXPECT_EQ(end.why, Why::by_itself);
  EXPECT_EQ(end.code(), 3);
  EXPECT_EQ(end.output, "yes\nno\n");
  EXPECT_FALSE(end.succeeded());
  EXPECT_TRUE(run_line("true").succeeded());
}

TEST(RunProgram, ReturnsNoCodeWhereASignalEndsIt) {
  const ChildEnd end = run_line("kill -KILL $$");
  EXPECT_EQ(end.why, Why::by_itself);
  EXPECT_FALSE(end.code());
}

TEST(RunProgram, AsksItToEndAtTheLimit) {
  ChildEnd end;
  for (double limit_s = 0.2; end.output.find("begun") == std::string::npos; limit_s *= 4)
    end = run_line("trap 'echo over; exit 0' TERM; echo begun; while :; do sleep 0.01; done",
                   {.limit_s = limit_s, .ending_s = 50});  // a busy machine begins later
  EXPECT_EQ(end.why, Why::late);
  EXPECT_FALSE(end.code());
  EXPECT_THAT(end.output, EndsWith("over\n"));
}

TEST(RunProgram, KillsWhatDoesNotEnd) {
  const ChildEnd end =
      run_line("trap '' TERM; while :; do sleep 0.01; done", {.limit_s = 0.05, .ending_s = 0.05});
  EXPECT_EQ(end.why, Why::late);
}

TEST(RunProgram, EndsAProgramAtTheLimitThatHasClosedItsOutput) {
  EXPECT_EQ(run_line("exec sleep 1000 > /dev/null 2>&1", {.limit_s = 0.2}).why, Why::late);
}

TEST(RunProgram, WaitsForAProgramThatHasClosedItsOutput) {
  const ChildEnd end = run_line("exec > /dev/null 2>&1; sleep 0.3; exit 4");
  EXPECT_EQ(end.why, Why::by_itself);
  EXPECT_EQ(end.code(), 4);
}

TEST(RunProgram, DoesNotWaitForAProcessThatKeepsTheOutputOpenAndEndsIt) {
  const ChildEnd end = run_line("sleep 1000 & echo $!; exit 3", {.limit_s = 1000});
  EXPECT_EQ(end.why, Why::by_itself);
  EXPECT_EQ(end.code(), 3);
  const std::int64_t left = std::stoll(end.output);
  EXPECT_TRUE(wait_until([&] {
    const auto stat = read_process_stat(left);
    return !stat || stat->state == 'Z' || stat->state == 'X';
  }));
}

TEST(RunProgram, LetsAProcessThatIsLeftRemoveItsFiles) {
  const ScratchDirectory folder;
  const std::string file = folder / "file";
  const ChildEnd end =
      run_line("touch " + file + "; (sleep 0.2; rm " + file + ") & exit 0", {.leftover_s = 50});
  EXPECT_TRUE(end.succeeded());
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(RunProgram, AsksItToEndAfterASignal) {
  EndSignals signals;
  EXPECT_FALSE(signals.came());
  ::raise(SIGTERM);
  const ChildEnd end = run_line("trap 'exit 0' TERM; while :; do sleep 0.01; done",
                                {.limit_s = 1000, .signals = &signals});
  EXPECT_EQ(end.why, Why::asked);
  EXPECT_FALSE(end.code());
  EXPECT_TRUE(signals.came());
  EXPECT_EQ(signals.take(), SIGTERM);
  EXPECT_EQ(signals.take(), 0);
}

TEST(RunProgram, KeepsTheBeginningAndTheEndOfMuch) {
  const ChildEnd end =
      run_line("echo begin; head -c 300000 /dev/zero | tr '\\0' x; echo end", {.most_output = 999});
  EXPECT_LE(end.output.size(), 999U);
  EXPECT_THAT(end.output, StartsWith("begin\nxxx"));
  EXPECT_THAT(end.output, EndsWith("xxxend\n"));
}

TEST(RunProgram, HandsOverWholeLines) {
  std::vector<std::string> lines;
  run_line("printf 'a\\nb'; sleep 0.1; printf 'c\\n\\nopen'",
           {.take_line = [&](std::string_view line) { lines.emplace_back(line); }});
  EXPECT_THAT(lines, ElementsAre("a", "bc", ""));
}

TEST(RunProgram, ShowsAgainAndAgainThatItRuns) {
  std::vector<double> passed;
  run_line("sleep 0.3", {.still_runs = [&](double seconds) { passed.push_back(seconds); },
                         .between_signs_s = 0.05});
  EXPECT_GE(passed.size(), 2U);
  EXPECT_TRUE(std::is_sorted(passed.begin(), passed.end()));
}

TEST(RunProgram, RefusesWhatIsNoProgram) {
  EXPECT_THAT(trireme::message_of([] { run_program({"no-such-program"}, {}); }),
              HasSubstr("no-such-program is no program"));
}

TEST(EndSignals, ThatThisProcessIgnoresStayIgnored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    EndSignals signals;
    ::raise(SIGHUP);
    EXPECT_FALSE(signals.came());
    ::raise(SIGTERM);
    EXPECT_EQ(signals.take(), SIGTERM);
  }
  std::signal(SIGHUP, before);
}

TEST(EndSignals, ThatWereNotTakenAreForgotten) {
  {
    const EndSignals signals;
    ::raise(SIGTERM);
  }
  SUCCEED();  // this process has not ended
}

}  // namespace
}  // namespace trireme::test
