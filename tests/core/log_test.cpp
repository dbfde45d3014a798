// Where a line goes, by its kind, the level and the rank, and what it does to shown progress.
#include "trireme/core/log.h"

#include <cstdio>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using testing::MatchesRegex;

struct Written {
  std::string out, errors;
};

Written written(const std::function<void()>& f) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  f();
  Written all;
  all.out = testing::internal::GetCapturedStdout();
  all.errors = testing::internal::GetCapturedStderr();
  return all;
}

void write_all(const Log& log) {
  log.info("a");
  log.debug("b");
  log.line("c");
  log.result("d");
  log.warning("e");
}

TEST(Log, ResultsGoToStdoutAtEveryLevel) {
  const std::string clock = "\\[[0-9-]+ [0-9:]+\\]", later = "\\[[0-9:]+\\]",
                    warning = "trireme\\[rank 0\\] warning: e\n";
  const Written debug = written([] { write_all(Log(0, LogLevel::debug)); });
  EXPECT_THAT(debug.out, MatchesRegex("# " + clock + " a\n# " + later + " b\nc\nd\n"));
  EXPECT_THAT(debug.errors, MatchesRegex(warning));
  const Written info = written([] { write_all(Log(0, LogLevel::info)); });
  EXPECT_THAT(info.out, MatchesRegex("# " + clock + " a\nc\nd\n"));
  EXPECT_THAT(info.errors, MatchesRegex(warning));
  const Written quiet = written([] { write_all(Log(0, LogLevel::quiet)); });
  EXPECT_EQ(quiet.out, "d\n");
  EXPECT_THAT(quiet.errors, MatchesRegex(warning));
}

TEST(Log, WritesAllButResultsToItsFile) {
  const Written apart = written([] { write_all(Log(0, LogLevel::info, stderr)); });
  EXPECT_EQ(apart.out, "d\n");
  EXPECT_THAT(apart.errors, MatchesRegex("# .* a\nc\ntrireme.*e\n"));
}

TEST(Log, OtherRanksOnlyWarn) {
  const Written other = written([] { write_all(Log(3, LogLevel::debug)); });
  EXPECT_EQ(other.out, "");
  EXPECT_EQ(other.errors, "trireme[rank 3] warning: e\n");
}

TEST(Log, EveryLineRemovesShownProgressFirst) {
  const std::function<void(const Log&)> writes[] = {
      [](const Log& log) { log.info("a"); }, [](const Log& log) { log.line("a"); },
      [](const Log& log) { log.result("a"); }, [](const Log& log) { log.warning("a"); }};
  const std::string shown = "\rhalf\033[K", removed = "\r\033[K";
  for (const auto& write : writes) {
    const Log log(0, LogLevel::info);
    const std::string out = written([&] {
                              log.progress("half");
                              write(log);
                              write(log);
                            }).out;
    EXPECT_EQ(out.substr(0, (shown + removed).size()), shown + removed);
    EXPECT_EQ(out.find('\r', (shown + removed).size()), out.npos) << "only once";
  }
}

}  // namespace
}  // namespace trireme::test
