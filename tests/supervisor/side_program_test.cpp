// Programs beside the job, which nothing waits for.
#include "launch/supervisor/machine/side_program.h"

#include <cerrno>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using trireme::test::wait_until;

class SidePrograms : public testing::Test {
 protected:
  SideCommand shell(const std::string& line) const {
    return {{"/bin/sh", "-c", line}, {"NAME=value"}};
  }
  /// As Machine does.
  void reap() {
    int status = 0;
    for (pid_t id; (id = ::waitpid(-1, &status, WNOHANG)) > 0;) statuses_.note(id, status);
  }
  SideEnd end_of(SideProgram& program) {
    std::optional<SideEnd> end;
    EXPECT_TRUE(wait_until([&] {
      reap();
      return (end = program.poll()).has_value();
    }));
    return end.value_or(SideEnd{});
  }

  SideStatuses statuses_;
  const ScratchDirectory folder_;
};

TEST_F(SidePrograms, ReportTheirCodeAndWhatTheyPrint) {
  SideProgram program(statuses_, shell("echo $NAME; echo no >&2; exit 3"));
  const SideEnd end = end_of(program);
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(end.output, "value\nno\n");
  EXPECT_FALSE(end.late);
}

TEST_F(SidePrograms, MayPrintMoreThanAPipeHolds) {
  SideProgram program(statuses_, shell("head -c 300000 /dev/zero; echo end"));
  const SideEnd end = end_of(program);
  EXPECT_EQ(end.output.size(), 300004U);
  EXPECT_TRUE(end.output.ends_with("end\n"));
}

TEST_F(SidePrograms, PrintIntoAFileWhereThereIsOne) {
  SideCommand command = shell("echo text");
  command.log = folder_ / "log";
  SideProgram program(statuses_, command);
  EXPECT_EQ(end_of(program).output, "");
  EXPECT_EQ(folder_.read("log"), "text\n");
}

TEST_F(SidePrograms, AreEndedAtTheirLimit) {
  SideCommand command = shell("sleep 1000");
  command.limit_s = 0.05;
  SideProgram program(statuses_, command);
  const SideEnd end = end_of(program);
  EXPECT_TRUE(end.late);
  EXPECT_FALSE(end.code);
}

TEST_F(SidePrograms, AreEndedWithTheirChildrenWhenTheirAnswerIsDropped) {
  const std::string file = folder_ / "ids";
  {
    SideProgram program(statuses_, shell("sleep 1000 & echo $! $$ > " + file + ".new; mv " + file +
                                         ".new " + file + "; wait"));
    ASSERT_TRUE(wait_until([&] { return ::access(file.c_str(), F_OK) == 0; }));
    EXPECT_FALSE(program.poll());
  }
  std::istringstream ids(folder_.read("ids"));
  for (pid_t id = 0; ids >> id;)
    EXPECT_TRUE(wait_until([&] {
      reap();
      return ::kill(id, 0) != 0 && errno == ESRCH;
    })) << id;
}

TEST_F(SidePrograms, MayBeAskedToEndBeforeTheyAreWaitedFor) {
  const std::string begun = folder_ / "begun";
  SideCommand command =
      shell("trap 'echo over; exit 0' TERM; touch " + begun + "; while :; do sleep 0.01; done");
  command.limit_s = 1000;
  SideProgram program(statuses_, command);
  ASSERT_TRUE(wait_until([&] { return ::access(begun.c_str(), F_OK) == 0; }));
  program.ask_to_end();
  // The shell may report before that its sleep was ended as well.
  EXPECT_THAT(end_of(program).output, testing::EndsWith("over\n"));
  program.ask_to_end();  // it has ended: its number may be that of another process
}

TEST_F(SidePrograms, MayRemoveTheirFilesWhenTheyAreEnded) {
  const std::string file = folder_ / "file", begun = folder_ / "begun";
  const std::string line = "trap 'rm " + file + "; exit 0' TERM; touch " + file + "; touch " +
                           begun + "; while :; do sleep 0.01; done";
  SideCommand command = shell(line);
  command.limit_s = command.ending_s = 60;
  {
    SideProgram program(statuses_, command);
    ASSERT_TRUE(wait_until([&] { return ::access(begun.c_str(), F_OK) == 0; }));
  }
  EXPECT_NE(::access(file.c_str(), F_OK), 0);
  command.limit_s = 0.2;
  SideProgram program(statuses_, command);
  const SideEnd end = end_of(program);
  EXPECT_TRUE(end.late);
  EXPECT_FALSE(end.code);
  EXPECT_NE(::access(file.c_str(), F_OK), 0);
}

TEST_F(SidePrograms, AreKilledWhereTheyDoNotEnd) {
  SideCommand command = shell("trap '' TERM; while :; do sleep 0.01; done");
  command.ending_s = 0.05;
  command.limit_s = 0.05;
  SideProgram program(statuses_, command);
  EXPECT_TRUE(end_of(program).late);
}  // and its destructor returns

TEST_F(SidePrograms, ThatDoNotExistAreRefused) {
  EXPECT_THROW(SideProgram(statuses_, SideCommand{{"no-such-program"}}), Error);
}

}  // namespace
}  // namespace trireme::supervisor::test
