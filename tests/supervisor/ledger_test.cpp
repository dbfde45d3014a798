// The ledger: what is written is read again, whatever a crash or another program left in the file.
#include "launch/supervisor/records/ledger.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "trireme/core/error.h"

#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using testing::ElementsAre;

AttemptEnded some_end() {
  AttemptEnded line;
  line.attempt = 3;
  line.at = 1'700'000'123;
  line.code = 205;
  line.cause = Cause::node_lost;
  line.signature = "node_lost 205 step \"lost\"\n";
  line.error = "lost";
  line.blame = {{"n2", 2, "the launcher lost contact with it"}};
  line.last_step = 137;
  line.durable = 130;
  line.wall_s = 20;
  line.start_s = 0.5;
  line.useful_s = 17.25;
  line.lost_s = 1;
  line.stall_s = 1.25;
  line.detect_s = 0.125;
  line.save_s = 3.5;
  line.gpus_per_rank = 0.5;
  line.first_step = 121;
  line.started = {120, "memory"};
  return line;
}

TEST(Ledger, ReadsWhatItWrote) {
  const AttemptEnded ended = some_end();
  const AttemptBegan began{3, 1'700'000'000, {"n0", "n2"}, 8, 4, 120, 2.5, "pp1 dp2 tp4", true};
  const SupervisionBegan supervision{1, 71, "n0", "run-1", "train_gpt", 60, "/logs/steps"};
  const std::string text = to_text(to_json(supervision)) + "\n" + to_text(to_json(began)) + "\n" +
                           to_text(to_json(ended)) + "\n" + to_text(to_json(Release{"n2", 5, 0})) +
                           "\n" + to_text(to_json(SupervisionEnded{9, 75, "stopped"})) + "\n";
  const History history = replay(text);
  EXPECT_EQ(history.ignored, 0);
  EXPECT_EQ(history.run, "run-1");
  EXPECT_EQ(history.program, "train_gpt");
  EXPECT_EQ(history.metrics_in("run"), "/logs/steps");
  EXPECT_EQ(replay("").metrics_in("run"), "run/metrics.jsonl");
  ASSERT_EQ(history.attempts.size(), 1U);
  EXPECT_EQ(to_text(to_json(history.attempts[0].began)), to_text(to_json(began)));
  EXPECT_EQ(to_text(to_json(*history.attempts[0].ended)), to_text(to_json(ended)));
  EXPECT_EQ(history.attempts[0].ended->at, 1'700'000'123);
  ASSERT_EQ(history.releases.size(), 1U);
  EXPECT_EQ(history.releases[0].after, 1U);
  ASSERT_TRUE(history.end);
  EXPECT_EQ(history.end->code, 75);
  EXPECT_EQ(history.first, 1U);
}

TEST(Ledger, HasACauseForEachNameAndForNamesOfLaterVersionsOne) {
  constexpr int unknown = static_cast<int>(Cause::unknown);
  for (int i = 0; i <= unknown; ++i) {
    const auto cause = static_cast<Cause>(i);
    EXPECT_EQ(cause_named(name(cause)), cause) << name(cause);
    EXPECT_TRUE(i == unknown || name(cause) < name(static_cast<Cause>(i + 1))) << name(cause);
  }
  EXPECT_EQ(cause_named("moved"), Cause::unknown);
  const History found = replay(
      "{\"attempt\":1,\"began\":\"\"}\n{\"attempt\":1,\"ended\":\"\",\"cause\":\"moved\"}\n");
  EXPECT_EQ(found.attempts.at(0).ended->cause, Cause::unknown);
}

TEST(Ledger, ReadsWhenAnAttemptSaves) {
  AttemptBegan began;
  const auto read = [&] { return replay(to_text(to_json(began)) + "\n").attempts[0].began.saves; };
  EXPECT_EQ(read(), std::nullopt);
  began.saves = SaveRule{.steps = 14};
  EXPECT_EQ(read(), began.saves);
  began.saves = SaveRule{.seconds = 37.5};
  EXPECT_EQ(read(), began.saves);
}

TEST(Ledger, ReadsTheHostsThatAreToBeLeft) {
  const History history = replay(to_text(to_json(Release{"n2", 5, 0})) + "\n" +
                                 to_text(to_json(Leave{"n2", 1'700'000'000, "remap"})) + "\n");
  EXPECT_EQ(history.ignored, 0);
  ASSERT_EQ(history.leaves.size(), 1U);
  EXPECT_EQ(history.leaves[0].host, "n2");
  EXPECT_EQ(history.leaves[0].at, 1'700'000'000);
  EXPECT_EQ(history.leaves[0].why, "remap");
  EXPECT_EQ(history.leaves[0].after, 1U);
}

TEST(Ledger, OfANewerTriremeNamesIt) {
  SupervisionBegan line;
  line.run = "r";
  std::string text = to_text(to_json(line)) + "\n";
  EXPECT_EQ(replay(text).newer, "");
  EXPECT_EQ(replay("{\"supervisor\":7,\"began\":\"2026-11-22T01:49:05Z\"}\n").newer, "");  // old
  const std::string own = "\"format\":1,\"version\":\"";
  ASSERT_NE(text.find(own), std::string::npos) << text;
  text.replace(text.find(own), own.size() + text.substr(text.find(own) + own.size()).find('"'),
               "\"format\":2,\"version\":\"9.1.0");
  EXPECT_EQ(replay(text).newer, "format 2 of trireme 9.1.0");
}

TEST(Ledger, IgnoresLinesThatAreNone) {
  const History history = replay(
      "\xff\xfe\n{}\n[1]\n{\"attempt\":1}\n{\"attempt\":\"x\",\"began\":7,\"nodes\":3}\n"
      "{\"attempt\":5,\"ended\":\"2026-11-22T01:49:05Z\"}\nnot the end");
  EXPECT_EQ(history.ignored, 6);  // members of another type make it no line, too
  EXPECT_EQ(history.attempts.size(), 0U);
}

/// A supervisor reckons with them, and writes none that are larger.
TEST(Ledger, IgnoresLinesWithNumbersThatNoRunHas) {
  const std::string began = ",\"began\":\"2026-01-01T00:00:00Z\"";
  const std::string sound = "{\"attempt\":2" + began + "}\n";
  for (const char* attempt : {"9223372036854775807", "1099511627777", "-1"})
    EXPECT_EQ(replay(sound + "{\"attempt\":" + attempt + began + "}\n").ignored, 1) << attempt;
  for (const char* member :
       {"\"ranks\":9223372036854775807", "\"resumed\":-9223372036854775808", "\"waited_s\":1e300"})
    EXPECT_EQ(replay(sound + "{\"attempt\":3" + began + "," + member + "}\n").ignored, 1) << member;
  const History history = replay(sound + "{\"attempt\":9223372036854775807" + began + "}\n");
  EXPECT_EQ(history.attempts.back().began.attempt, 2);
  EXPECT_EQ(replay("{\"loss_spike\":7,\"attempt\":1,\"loss\":1e300}\n").ignored, 0);
}

/// Of files and programs; JSON holds UTF-8 only.
TEST(Ledger, KeepsNamesThatAreNoUtf8) {
  const std::string program = "p\xff", metrics = "/logs/\xe9t\xe9/steps";
  const SupervisionBegan line{1, 71, "n0", "run-1", program, 60, metrics};
  const History history = replay(to_text(to_json(line)) + "\n");
  EXPECT_EQ(history.program, program);
  EXPECT_EQ(history.metrics, metrics);
  const std::string plain = to_text(to_json(SupervisionBegan{1, 71, "n0", "run-1", "p", 60, "m"}));
  EXPECT_EQ(plain.find("_bytes"), std::string::npos);
}

TEST(LedgerFile, CutsOffWhatACrashLeftOfALine) {
  const ScratchDirectory folder;
  const std::string path = folder.write("ledger", "{\"released\":\"a\"}\n{\"rele");
  LedgerFile(path).append(to_json(Release{"b", 0, 0}));
  EXPECT_EQ(folder.read("ledger"),
            "{\"released\":\"a\"}\n{\"released\":\"b\",\"at\":\"1970-01-01T00:00:00Z\"}\n");
}

/// Sets how large files may become, and sets it back.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    require(::getrlimit(RLIMIT_FSIZE, &before_) == 0, "getrlimit");
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    require(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(LedgerFile, KeepsNoPartOfALineForWhichThereIsNoSpace) {
  const ScratchDirectory folder;
  LedgerFile file(folder / "ledger");
  file.append(to_json(Release{"a", 0, 0}));
  const std::string whole = folder.read("ledger");
  {
    const FileLimit full(whole.size() + 10);
    EXPECT_THROW(file.append(to_json(Release{"b", 0, 0})), Error);
  }
  EXPECT_EQ(folder.read("ledger"), whole);
  file.append(to_json(Release{"c", 0, 0}));
  EXPECT_EQ(replay(folder.read("ledger")).releases.size(), 2U);
  EXPECT_EQ(replay(folder.read("ledger")).ignored, 0);
}

TEST(Ledger, ReadsDatesBackAndOthersAs0) {
  EXPECT_EQ(date_of(date_text(1'763'776'145)), 1'763'776'145);
  EXPECT_EQ(date_text(1'763'776'145), "2025-11-22T01:49:05Z");
  for (const char* text : {"", "now", "2025-11-22", "2025-11-22T01:49:05Zx"})
    EXPECT_EQ(date_of(text), 0) << text;
}

}  // namespace
}  // namespace trireme::supervisor::test
