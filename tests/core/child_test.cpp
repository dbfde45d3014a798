// Programs that this process has started.
#include "runtime/core/process/child.h"

#include <cerrno>
#include <csignal>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using Output = ChildOptions::Output;
using Why = ChildEnd::Why;

std::vector<std::string> shell(const std::string& line) { return {"/bin/sh", "-c", line}; }

bool is_gone(pid_t id) { return ::kill(id, 0) != 0 && errno == ESRCH; }

class Children : public testing::Test {
 protected:
  bool exists(const std::string& name) const {
    return ::access((folder_ / name).c_str(), F_OK) == 0;
  }
  /// A program that ends by itself when it is asked to, and says so.
  std::vector<std::string> polite(const std::string& last = "echo over") const {
    return shell("trap '" + last + "; exit 0' TERM; touch " + (folder_ / "begun") +
                 "; while :; do sleep 0.01; done");
  }

  const ScratchDirectory folder_;
};

TEST_F(Children, ReportTheirCodeAndWhatTheyPrint) {
  Child child(shell("echo $NAME; echo no >&2; exit 3"),
              {.environment = environment_with({"NAME=value"}), .output = Output::pipe});
  const ChildEnd& end = child.wait();
  EXPECT_EQ(end.why, Why::by_itself);
  EXPECT_EQ(end.code(), 3);
  EXPECT_EQ(end.output, "value\nno\n");
  EXPECT_EQ(child.id(), -1);
  EXPECT_EQ(child.poll(), &end);
}

TEST_F(Children, ReportTheSignalThatEndsThem) {
  Child child(shell("kill -USR1 $$"));
  const ChildEnd& end = child.wait();
  EXPECT_EQ(end.signal, SIGUSR1);
  EXPECT_FALSE(end.code());
}

TEST_F(Children, MayPrintMoreThanAPipeHolds) {
  std::size_t taken = 0;
  Child child(shell("head -c 300000 /dev/zero; echo end"),
              {.output = Output::pipe,
               .take = [&](std::string_view piece) { taken += piece.size(); },
               .most_output = 1000});
  const std::string& output = child.wait().output;
  EXPECT_EQ(taken, 300004U);
  EXPECT_LE(output.size(), 1000U);
  EXPECT_TRUE(output.ends_with("end\n"));
}

TEST_F(Children, PrintIntoAFile) {
  Child child(shell("echo text; echo error >&2"),
              {.output = Output::file, .file = folder_ / "log"});
  EXPECT_EQ(child.wait().output, "");
  EXPECT_EQ(folder_.read("log"), "text\nerror\n");
}

TEST_F(Children, MayKeepTheErrorsOfThisProcess) {
  testing::internal::CaptureStderr();
  Child child(shell("echo text; echo error >&2"), {.output = Output::pipe, .errors = false});
  EXPECT_EQ(child.wait().output, "text\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error\n");
}

TEST_F(Children, AreEndedAtTheirLimit) {
  Child child({"sleep", "1000"}, {.limit_s = 0.05});
  const ChildEnd& end = child.wait();
  EXPECT_EQ(end.why, Why::late);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_FALSE(end.succeeded());
}

TEST_F(Children, AreKilledAtOnceWithoutTimeToEnd) {
  Child child(polite("touch " + (folder_ / "asked")), {.limit_s = 0.05, .ending_s = 0});
  EXPECT_EQ(child.wait().signal, SIGKILL);
  EXPECT_FALSE(exists("asked"));
}

TEST_F(Children, AreKilledWhereTheyDoNotEnd) {
  Child child(
      shell("trap '' TERM; touch " + (folder_ / "begun") + "; while :; do sleep 0.01; done"),
      {.ending_s = 0.05});
  ASSERT_TRUE(wait_until([&] { return exists("begun"); }));
  child.ask_to_end();
  const ChildEnd& end = child.wait();
  EXPECT_EQ(end.why, Why::asked);
  EXPECT_EQ(end.signal, SIGKILL);
}

TEST_F(Children, AreEndedWithTheirGroupWhenTheyAreDropped) {
  {
    Child child(shell("sleep 1000 & echo $! $$ > " + (folder_ / "new") + "; mv " +
                      (folder_ / "new") + " " + (folder_ / "ids") + "; wait"));
    ASSERT_TRUE(wait_until([&] { return exists("ids"); }));
    EXPECT_EQ(child.poll(), nullptr);
  }
  std::istringstream ids(folder_.read("ids"));
  for (pid_t id = 0; ids >> id;) EXPECT_TRUE(wait_until([&] { return is_gone(id); })) << id;
}

TEST_F(Children, MayRemoveTheirFilesWhenTheyAreDropped) {
  {
    Child child(polite("rm " + (folder_ / "begun")), {.ending_s = 60});
    ASSERT_TRUE(wait_until([&] { return exists("begun"); }));
  }
  EXPECT_FALSE(exists("begun"));
}

TEST_F(Children, MayBeAskedToEndBeforeTheyAreWaitedFor) {
  Child child(polite(), {.output = Output::pipe, .ending_s = 60});
  ASSERT_TRUE(wait_until([&] { return exists("begun"); }));
  child.ask_to_end();
  const ChildEnd& end = child.wait();
  // The shell may report before that its sleep was ended as well.
  EXPECT_THAT(end.output, testing::EndsWith("over\n"));
  EXPECT_EQ(end.why, Why::asked);
  EXPECT_EQ(end.status, 0);
  EXPECT_FALSE(end.succeeded());
  child.ask_to_end();  // it has ended: its number may be that of another process
  child.signal(SIGKILL);
}

TEST_F(Children, ThatOutliveThisProcessAreNotEnded) {
  pid_t id = -1;
  {
    Child child({"sleep", "1000"}, {.outlives = true});
    id = child.id();
    EXPECT_EQ(child.poll(), nullptr);
  }
  EXPECT_EQ(::kill(id, 0), 0);
  ::kill(id, SIGKILL);
  EXPECT_EQ(::waitpid(id, nullptr, 0), id);
}

TEST_F(Children, ThatDoNotExistAreRefused) {
  EXPECT_THROW(Child({"no-such-program"}), Error);
  EXPECT_THROW(Child({folder_.write("no_program", "")}), Error);
}

TEST_F(Children, AreToldFromOrphansByTheirFamily) {
  EXPECT_EXIT(
      {
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        std::set<pid_t> family;
        Child child(shell("exit 4"), {.family = &family});
        const pid_t id = child.id();
        Child parent(shell("sleep 0.1 & echo $!"), {.output = Output::pipe, .outlives = true});
        const pid_t orphan = std::stoi(parent.wait().output);
        const auto zombie = [](pid_t which) {
          siginfo_t info{};
          return ::waitid(P_PID, static_cast<id_t>(which), &info, WEXITED | WNOWAIT) == 0;
        };
        const bool both = zombie(orphan) && zombie(id);
        reap_orphans(family);
        const bool kept = family.contains(id) && zombie(id) && child.wait().code() == 4;
        reap_orphans(family);
        ::_exit(both && kept && family.empty() && is_gone(orphan) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace trireme::test
