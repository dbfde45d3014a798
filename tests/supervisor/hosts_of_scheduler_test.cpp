// Hosts that a scheduler gives: the nodes of a Slurm job, the workers of an MPIJob.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/scheduler.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = HostSource::Kind;

Environment variables(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? "" : found->second;
  };
}

Environment slurm(const std::string& nodes, const std::string& tasks = "2(x3)") {
  return variables(
      {{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_NODELIST", nodes}, {"SLURM_TASKS_PER_NODE", tasks}});
}

std::vector<std::string> texts(const std::vector<Host>& hosts) {
  std::vector<std::string> all;
  for (const Host& host : hosts) all.push_back(str(host.name, ':', host.slots));
  return all;
}

HostRequest request(bool several = true, std::vector<std::string> mpirun = {"mpirun"}) {
  return {"", std::move(mpirun), several};
}

const std::string none = "/no/such/script";

TEST(Nodelist, OfSlurmIsExpanded) {
  EXPECT_THAT(expand_nodelist("node[1-3]"), ElementsAre("node1", "node2", "node3"));
  EXPECT_THAT(expand_nodelist("a[08-10,3],b,c-x[1]"),
              ElementsAre("a08", "a09", "a10", "a3", "b", "c-x1"));
  EXPECT_THAT(expand_nodelist("r[1-2]n[7,9].lan"),
              ElementsAre("r1n7.lan", "r1n9.lan", "r2n7.lan", "r2n9.lan"));
  EXPECT_THAT(expand_nodelist(""), IsEmpty());
}

TEST(Nodelist, ThatIsWrongIsRefused) {
  for (const char* list : {"a[1-3", "a[3-1]", "a[]", "a[x]", "a[1-]", "a[1-99999999]", "a]"})
    EXPECT_THROW(expand_nodelist(list), Error) << list;
}

TEST(SchedulerHosts, AreTheNodesOfASlurmJobWithItsTasksAsSlots) {
  const HostSource source = find_hosts(request(), slurm("node[1-3]", "2(x2),4"), none);
  EXPECT_EQ(source.kind, Kind::slurm);
  EXPECT_EQ(source.name, "Slurm job 17");
  EXPECT_THAT(texts(read_hosts(source, 8)), ElementsAre("node1:2", "node2:2", "node3:4"));
  const HostSource silent = find_hosts(request(), slurm("node[1-2]", ""), none);
  EXPECT_THAT(texts(read_hosts(silent, 8)), ElementsAre("node1:8", "node2:8"));
}

TEST(SchedulerHosts, OfASlurmJobOfOneNodeAreThisMachineUnlessMoreAreAskedFor) {
  EXPECT_EQ(find_hosts(request(false), slurm("node1", "2"), none).kind, Kind::this_machine);
  EXPECT_EQ(find_hosts(request(true), slurm("node1", "2"), none).kind, Kind::slurm);
  EXPECT_EQ(find_hosts(request(false), slurm("node[1-3]"), none).kind, Kind::slurm);
  EXPECT_EQ(find_hosts(request(false), variables({}), none).kind, Kind::this_machine);
}

TEST(SchedulerHosts, DoNotCountWhereTheUserNamesHosts) {
  HostRequest with_file = request();
  with_file.hostfile = "hosts";
  const HostSource source = find_hosts(with_file, slurm("node[1-3]"), none);
  EXPECT_EQ(source.kind, Kind::hostfile);
  EXPECT_EQ(source.name, "--hostfile hosts");
}

TEST(SchedulerHosts, OfAFileThatIsWrongAreRefusedWithItsName) {
  const ScratchDirectory folder;
  HostRequest with_file = request();
  with_file.hostfile = folder.write("hosts", "n1\n-oProxyCommand=x\n");
  EXPECT_THAT(
      message_of(folder, [&] { read_hosts(find_hosts(with_file, variables({}), none), 1); }),
      HasSubstr("hosts: line 2: '-oProxyCommand=x' is no name of a host"));
}

TEST(SchedulerHosts, AreRefusedInTheOptionsOfMpirun) {
  for (const std::string option : {"-H", "--H", "-host", "--host", "--hostfile", "--machinefile",
                                   "-default-hostfile", "--host=n1", "--hostfile=hosts"})
    EXPECT_THAT(message_of([&] {
                  find_hosts(request(true, {"mpirun", option, "a"}), slurm("node[1-3]"), none);
                }),
                HasSubstr("--mpirun: " + option + " has no meaning here: give the hosts by "));
  for (const std::string other : {"H", "host=1", "--", "-", "", "--host-alias", "-np"})
    EXPECT_NO_THROW(find_hosts(request(true, {"mpirun", "-x", other}), slurm("node[1-3]"), none));
}

TEST(SchedulerHosts, ThatSlurmDescribesWronglyAreRefusedWithTheJob) {
  EXPECT_EQ(message_of([] { find_hosts(request(), slurm("node[1-3]", "2(x2)"), none); }),
            "Slurm job 17: SLURM_TASKS_PER_NODE has 2 nodes, but SLURM_JOB_NODELIST has 3; give "
            "--hostfile");
  EXPECT_THAT(message_of([] { find_hosts(request(), slurm("node[1-3"), none); }),
              HasSubstr("lacks a bracket; give --hostfile"));
  EXPECT_THROW(find_hosts(request(), slurm("node[1-3]", "2(x"), none), Error);
}

TEST(SchedulerHosts, AreTheWorkersOfAnMpijobAsTheyAreNow) {
  const ScratchDirectory folder;
  const std::string script =
      folder.write("discover_hosts.sh", "#!/bin/sh\necho w-0.w.ns.svc\necho w-1.w.ns.svc:4\n");
  const HostSource source = find_hosts(request(false), variables({}), script);
  EXPECT_EQ(source.kind, Kind::discovery);
  EXPECT_THAT(texts(read_hosts(source, 2)), ElementsAre("w-0.w.ns.svc:2", "w-1.w.ns.svc:4"));
  folder.write("discover_hosts.sh", "echo w-1.w.ns.svc\n");
  EXPECT_THAT(texts(read_hosts(source, 2)), ElementsAre("w-1.w.ns.svc:2"));
  folder.write("discover_hosts.sh", "echo w-1; exit 3\n");
  EXPECT_THAT(message_of(folder, [&] { read_hosts(source, 2); }),
              HasSubstr("discover_hosts.sh failed: it must print the hosts, and exit with 0"));
}

TEST(SchedulerHosts, KeepTheirJobWhenANodeIsLostOnlyWithNoKill) {
  EXPECT_TRUE(asks_for_no_kill("#!/bin/bash\n#SBATCH -N3 --no-kill --requeue\ntrue\n"));
  EXPECT_TRUE(asks_for_no_kill("#!/bin/bash\n#SBATCH -k  # keep it\n"));
  EXPECT_FALSE(asks_for_no_kill("#!/bin/bash\n#SBATCH -N3  # no --no-kill\n"));
  EXPECT_FALSE(asks_for_no_kill("#!/bin/bash\n##SBATCH --no-kill\nsrun --no-kill true\n"));
  EXPECT_TRUE(job_has_no_kill(variables({{"SBATCH_NO_KILL", "1"}})));
  EXPECT_FALSE(job_has_no_kill(variables({})));
}

}  // namespace
}  // namespace trireme::supervisor::test
