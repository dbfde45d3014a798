// Hosts that do not answer, where mpirun has named none.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "launch/supervisor/machine/scheduler.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::IsEmpty;
using trireme::test::wait_until;

class Reach : public testing::Test {
 protected:
  /// A remote shell with which the hosts "off…" are down, and "mute…" do not answer.
  Words shell() const {
    const std::string path = folder_.write("shell",
                                           "#!/bin/sh\n"
                                           "case $1 in off*) exit 255;; mute*) sleep 100;; esac\n"
                                           "shift; exec \"$@\"\n");
    fs::permissions(path, fs::perms::owner_all);
    return {path};
  }
  /// `longest_s`: of a host; one that is well has to answer within it.
  std::vector<std::string> unreachable(const std::vector<Host>& hosts, double longest_s = 60) {
    return unreachable(hosts, shell(), longest_s);
  }
  std::vector<std::string> unreachable(const std::vector<Host>& hosts, const Words& shell,
                                       double longest_s) {
    UnreachableHosts question(family_, hosts, shell, longest_s);
    std::optional<std::vector<std::string>> found;
    EXPECT_TRUE(wait_until([&] {
      reap_orphans(family_);
      return (found = question.poll()).has_value();
    }));
    return found.value_or(std::vector<std::string>());
  }
  std::set<pid_t> family_;
  ScratchDirectory folder_;
};

TEST_F(Reach, NamesHostsThatAreDownOrDoNotAnswer) {
  EXPECT_THAT(unreachable({{"n0", 1}, {"off1", 1}, {"n2", 1}}), ElementsAre("off1"));
  EXPECT_THAT(unreachable({{"mute3", 1}}, 0.5), ElementsAre("mute3"));
  EXPECT_THAT(unreachable({{"n0", 1}, {"n1", 1}}), IsEmpty());
  EXPECT_THAT(unreachable({{"off1", 1}}), ElementsAre("off1"));
}

TEST_F(Reach, NamesNoHostWhereNoneAnswers) {
  EXPECT_THAT(unreachable({{"off0", 1}, {"off1", 1}}), IsEmpty());
  EXPECT_THAT(unreachable({{"n0", 1}}, {"/no/such/shell"}, 60), IsEmpty());
  EXPECT_THAT(unreachable({{"n0", 1}}, {}, 60), IsEmpty());
}

#if !defined(__SANITIZE_ADDRESS__)  // whose checks need files themselves
TEST_F(Reach, NamesNoHostThatCannotBeAsked) {
  const Words words = shell();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0,
                    limit.rlim_max};  // no more files, so no more processes that say how they end
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto found = unreachable({{"off1", 1}}, words, 60);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(found, IsEmpty());
}
#endif

TEST_F(Reach, AsksNotThisMachine) { EXPECT_THAT(unreachable({{"localhost", 1}}), IsEmpty()); }

TEST(RemoteShell, IsThatOfMpirun) {
  const auto none = [](const std::string&) { return std::string(); };
  const auto some = [](const std::string& name) {
    return name == "OMPI_MCA_plm_rsh_agent" ? "kubexec.sh" : "";
  };
  HostSource file, slurm;
  file.kind = HostSource::Kind::hostfile;
  slurm.kind = HostSource::Kind::slurm;
  EXPECT_THAT(remote_shell_of("my rsh", {"mpirun"}, slurm, some), ElementsAre("my", "rsh"));
  EXPECT_THAT(remote_shell_of("", {"mpirun", "--mca", "plm_rsh_agent", "rsh"}, file, some),
              ElementsAre("rsh"));
  EXPECT_THAT(remote_shell_of("", {"mpirun"}, file, some), ElementsAre("kubexec.sh"));
  EXPECT_THAT(remote_shell_of("", {"mpirun"}, file, none), ElementsAre("ssh"));
  EXPECT_THAT(remote_shell_of("", {"mpirun"}, slurm, none), IsEmpty());
}

}  // namespace
}  // namespace trireme::supervisor::test
