// trireme preflight on this machine and on simulated nodes: who is bad is named, with the reason.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/find_processes.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

class Preflight : public testing::Test {
 protected:
  Outcome run(const std::string& options, const std::string& variables = "") const {
    const std::string line = TRIREME_MPIRUN;
    const std::size_t begin = line.find("env ");
    const std::string environment = line.substr(begin, line.rfind(' ') - begin);
    return run_shell(environment + " TMPDIR=" + folder_.path() + " " + variables +
                         " " TRIREME_BIN_DIR "/trireme preflight " + options,
                     folder_ / "log");
  }
  Outcome run_on_nodes(const std::string& options, const std::string& shell,
                       const std::string& variables = "") const {
    return run("--hosts host0,host1,host2 --remote-shell " + shell + " " + options,
               "OMPI_MCA_btl=tcp,self,vader OMPI_MCA_btl_tcp_if_include=lo "
               "OMPI_MCA_oob_tcp_if_include=lo " +
                   variables);
  }
  nlohmann::json report() const { return nlohmann::json::parse(folder_.read("report.json")); }

  ScratchDirectory folder_;
  const std::string simulated_node_ = TRIREME_SOURCE_DIR "/tests/support/simulated_node";
  const std::string json_ = "--json " + (folder_ / "report.json");
};

TEST_F(Preflight, OfThisMachineIsWellAndLeavesNothing) {
  const Outcome outcome =
      run("--long --seconds 0.1 --run-dir " + (folder_ / "not/made/yet") + " " + json_,
          "CUDA_VISIBLE_DEVICES=");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const nlohmann::json node = report()["nodes"][0];
  for (const char* figure : {"gemm_gflops", "steady_gemm_gflops", "fma_gflops", "copy_gb_per_s",
                             "rename_sync_ms", "run_write_mb_per_s", "disk_read_mb_per_s"})
    EXPECT_GT(node["figures"][figure], 0) << figure;
  EXPECT_EQ(node["facts"]["gpus"], "0");
  EXPECT_TRUE(node["facts"].contains("training"));
  EXPECT_THAT(outcome.output, HasSubstr(" s  training steps\n"));
  EXPECT_EQ(folder_.files(), 2U);  // log and report
}

TEST_F(Preflight, NamesTheNodeWhoseGpuIsBadAndWarnsOfOneThatIsHot) {
  std::ofstream(folder_ / "gpus-host1") << "gpu0.failed 1\n";
  std::ofstream(folder_ / "gpus-host2") << "gpu0.temperature 89\n";
  std::ofstream(folder_ / "gpus-host0") << "gpus 1\n";
  const Outcome outcome =
      run_on_nodes(json_, simulated_node_,
                   "TRIREME_NVML=" TRIREME_FAKE_NVML " FAKE_NVML=" + (folder_ / "gpus-%h"));
  EXPECT_EQ(outcome.exit_code, 69) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("\nbad: host1: GPU 0: remap failed: "));
  EXPECT_THAT(outcome.output, HasSubstr("\nwarning: host2: GPU 0: temperature: "));
  EXPECT_THAT(outcome.output, StartsWith("host0  well"));
  EXPECT_EQ(report()["nodes"].size(), 3U);
  EXPECT_EQ(report()["pairs"].size(), 2U);  // 0-1 and 0-2
  EXPECT_EQ(report()["nodes"][0]["facts"]["driver"], "fake 1.0");
}

TEST_F(Preflight, NamesAHostThatDoesNotStart) {
  const std::string shell = folder_.write(
      "shell",
      "#!/bin/sh\ncase \"$*\" in *host1*) echo no route to host >&2; exit 1;; esac\nexec " +
          simulated_node_ + " \"$@\"\n");
  ASSERT_EQ(run_shell("chmod +x " + shell, folder_ / "log").exit_code, 0);
  const Outcome outcome = run_on_nodes(json_, shell);
  EXPECT_EQ(outcome.exit_code, 69) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("\nbad: host1: the preflight fails on it: "));
  EXPECT_THAT(outcome.output, Not(HasSubstr("bad: host0")));
  EXPECT_THAT(outcome.output, Not(HasSubstr("bad: host2")));
}

TEST_F(Preflight, EndsWhatItHasStartedAndLeavesNothingWhenItIsToEnd) {
  const std::string begun = folder_ / "begun";
  const std::string mpirun =
      folder_.write("mpirun", "#!/bin/sh\ntrap 'exit 1' TERM\ntouch " + begun +
                                  "\nwhile :; do sleep 0.05; done\n");
  fs::permissions(mpirun, fs::perms::owner_all);
  fs::create_directory(folder_ / "tmp");
  for (const int signal : {SIGTERM, SIGINT}) {
    fs::remove(begun);
    BackgroundProcess preflight("exec env TMPDIR=" + (folder_ / "tmp") +
                                    " " TRIREME_BIN_DIR "/trireme preflight --mpirun " + mpirun,
                                folder_ / "log");
    ASSERT_TRUE(wait_until([&] { return fs::exists(begun) || !preflight.running(); }));
    EXPECT_FALSE(fs::is_empty(folder_ / "tmp"));
    preflight.send(signal);
    EXPECT_EQ(preflight.wait().exit_code, 128 + signal);
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
    EXPECT_EQ(processes_with(mpirun), 0);
  }
}

TEST_F(Preflight, NamesANodeThatIsSlowerThanBefore) {
  ASSERT_EQ(run(json_).exit_code, 0);
  nlohmann::json before = report();
  before["nodes"][0]["figures"]["gemm_gflops"] = 1e6;  // no machine of this test has as much
  folder_.write("before.json", before.dump());
  const Outcome outcome = run("--against " + (folder_ / "before.json"));
  EXPECT_EQ(outcome.exit_code, 69) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("slow: gemm_gflops "));
  EXPECT_THAT(outcome.output, HasSubstr(" of what it was before"));
}

TEST_F(Preflight, RefusesWhatCannotRunWithOneLineEach) {
  folder_.write("other.json", "{\"nodes\":[]}");
  folder_.write("hosts", "host0\n");
  const Outcome outcome = run("--short --long --nodes 3 --mpirun nothing --hosts a --hostfile " +
                              (folder_ / "hosts") + " --against " + (folder_ / "other.json") +
                              " --json " + (folder_ / "missing/report.json"));
  EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("--short and --long: give one of them\n"));
  EXPECT_THAT(run("--seconds 3").output, HasSubstr("--seconds has no meaning without --long\n"));
  EXPECT_THAT(outcome.output, HasSubstr("--hosts and --hostfile: give one of them\n"));
  EXPECT_THAT(outcome.output, HasSubstr("--mpirun 'nothing': there is no such program\n"));
  EXPECT_THAT(outcome.output, HasSubstr("--nodes 3: there are 1 hosts\n"));
  EXPECT_THAT(outcome.output, HasSubstr("report.json: there is no directory "));
  EXPECT_THAT(outcome.output,
              HasSubstr("other.json: a preflight's report: pairs is missing; expected a list\n"));
}

TEST_F(Preflight, RefusesAListWithoutAHost) {
  folder_.write("hosts", "# none is left\n");
  const std::string file = "--hostfile " + (folder_ / "hosts");
  for (const std::string& given : {file, std::string("--hosts ,")}) {
    const Outcome outcome = run(given);
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(given + " names no host\n"));
  }
}

TEST_F(Preflight, RefusesToCompareWithOtherHosts) {
  ASSERT_EQ(run(json_).exit_code, 0);
  nlohmann::json before = report();
  before["nodes"][0]["host"] = "elsewhere";
  folder_.write("before.json", before.dump());
  const Outcome outcome = run("--hosts host0,host1 --against " + (folder_ / "before.json"));
  EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("before.json: it is a report of elsewhere, not of host0, host1\n"));
}

}  // namespace
}  // namespace trireme::test
