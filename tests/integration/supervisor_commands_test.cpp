// trireme run, stop, status, report and nodes: what they refuse, with one line each, and what they
// print.
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SupervisorCommands : public SupervisedRun {
 protected:
  std::string script(const std::string& name, const std::string& text) const {
    const std::string path = folder_.write(name, "#!/bin/sh\n" + text);
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
};

TEST_F(SupervisorCommands, NeverRestartsAConfigurationThatCannotRun) {
  start("", trainer, "--pp 7");
  EXPECT_EQ(wait(), 64) << output();
  EXPECT_THAT(causes(), ElementsAre("configuration"));
  EXPECT_THAT(output(), HasSubstr("attempt 1 ended: configuration (exit code 64), step 0, newest "
                                  "durable step 0: --tensor-model-parallel-size 2 x --pipeline-"));
  EXPECT_THAT(output(), HasSubstr("the configuration cannot run (exit code 64)"));
  EXPECT_THAT(output(), HasSubstr("the last output is in "));
  expect_nothing_left();
}

TEST_F(SupervisorCommands, GoesBackOnceWhereGradientsAreNotFinite) {
  start("", trainer, "--lr 1e30 --max-skipped 3 --clip-grad 0");
  EXPECT_EQ(wait(), 70) << output();
  EXPECT_THAT(causes(), ElementsAre("numerics", "numerics"));
  EXPECT_THAT(output(), HasSubstr("gradients are not finite again"));
}

TEST_F(SupervisorCommands, RefusesASecondSupervisor) {
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  const Outcome second = shell(supervision("", trainer, ""));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.output, HasSubstr(str("pid ", job_->id())));
  EXPECT_THAT(second.output, HasSubstr("supervises this run already"));
  EXPECT_EQ(count(second.output, "\n"), 1) << second.output;
  const Outcome status = shell(command + " status --json " + run_directory());
  EXPECT_THAT(status.output, HasSubstr("\"state\":\"at work\""));
  EXPECT_THAT(status.output, HasSubstr("{\"rank\":3,\"phase\":"));
  EXPECT_THAT(shell(command + " status " + run_directory()).output,
              HasSubstr("rank 3 (pp0 dp1 tp1): "));
  stop();
}

// Neither waits for the other: whoever comes second may not continue a run that was just stopped.
TEST_F(SupervisorCommands, OfTwoThatAreStartedAtOnceOneIsRefused) {
  start();
  BackgroundProcess second(
      str("exec ", environment(), " TMPDIR=", folder_ / "tmp", " ", supervision("", trainer, "")),
      folder_ / "second");
  ASSERT_TRUE(wait_until([&] { return !job_->running() || !second.running(); }));
  const bool first_is_refused = !job_->running();
  BackgroundProcess& refused = first_is_refused ? *job_ : second;
  EXPECT_EQ(refused.wait().exit_code, 1);
  EXPECT_THAT(read_text(first_is_refused ? log_ : folder_ / "second"),
              HasSubstr("supervises this run already"));
  ASSERT_TRUE(wait_until([&] { return durable() > 0; }));
  EXPECT_EQ(shell(command + " stop " + run_directory() + " --wait 60").exit_code, 0);
  EXPECT_EQ((first_is_refused ? second : *job_).wait().exit_code, 75);
  EXPECT_EQ(history().attempts.size(), 1U);
}

TEST_F(SupervisorCommands, RefusesWhatCannotRunWithOneLineEach) {
  const std::string hosts = folder_.write("hosts", "a\nb\n");
  fs::create_directories(folder_ / "other");
  folder_.write("other/thesis.tex", "");
  const auto refused = [&](const std::string& own, const std::string& program) {
    const Outcome outcome = shell(command + " run " + own + " -- " + program);
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_EQ(count(outcome.output, "\n"), 1) << outcome.output;
    return outcome.output;
  };
  fs::create_symlink("/nowhere/run", folder_ / "link");
  EXPECT_THAT(refused("", "true --save " + (folder_ / "link")),
              HasSubstr("/link: is a link to /nowhere/run, which is not there"));
  folder_.write("file", "");
  EXPECT_THAT(refused("", "true --save " + (folder_ / "file/run")),
              HasSubstr("/file/run: cannot be made: Not a directory"));
  const Outcome no_scratch =
      run_shell("TMPDIR=/nowhere " + command + " run -- true --save " + (folder_ / "r"),
                folder_ / "shell.log");
  EXPECT_EQ(no_scratch.exit_code, 64);
  EXPECT_EQ(no_scratch.output,
            "trireme: TMPDIR /nowhere: cannot be written to: No such file or directory\n");
  EXPECT_THAT(
      refused("--hostfile " + hosts + " --nodes 2 --spares 1", "true --save r"),
      HasSubstr("--nodes 2 and --spares 1 need 3 hosts, but --hostfile " + hosts + " has 2"));
  EXPECT_EQ(refused("-np 2", "true --save r"), "trireme: -np: use -n 2, ranks on each host\n");
  EXPECT_THAT(refused("-n 0", "true --save r"), HasSubstr("-n 0: expected a whole number >= 1"));
  const Outcome bare = shell(command + " run -n 2 train_gpt --save r --lr x");
  EXPECT_EQ(bare.exit_code, 64);
  EXPECT_EQ(count(bare.output, "\n"), 1) << bare.output;
  EXPECT_THAT(bare.output, HasSubstr("trireme: -- is missing before PROGRAM"));
  const std::string two = "--hostfile " + hosts + " --nodes 2 ";
  EXPECT_THAT(refused("--nodes 2 --spares 1", "true --save r"),
              HasSubstr("--nodes 2 needs --hostfile, or a job of several nodes of a scheduler"));
  EXPECT_THAT(refused(two + "--min-nodes 3", "true --save r"),
              HasSubstr("--min-nodes 3 are more than --nodes 2"));
  EXPECT_THAT(refused(two + "--also-layout '--tp 1'", "true --save r"),
              HasSubstr("--also-layout has no meaning without fewer --min-nodes than --nodes"));
  EXPECT_THAT(refused(two + "--min-nodes 1 --also-layout '--save-interval 5'", "true --save r"),
              HasSubstr("--also-layout \"--save-interval 5\": --save-interval is the same on every "
                        "layout"));
  EXPECT_THAT(refused(two + "--min-nodes 2 --grow", "true --save r"),
              HasSubstr("--grow has no meaning without fewer --min-nodes than --nodes"));
  EXPECT_THAT(refused("--grow", "true --save r"),
              HasSubstr("--grow has no meaning on one machine; give --hostfile"));
  EXPECT_THAT(refused("--requeue-self", "true --save r"),
              HasSubstr("--requeue-self has no meaning outside of a Slurm job"));
  EXPECT_THAT(refused("", trainer + " --save " + (folder_ / "other")),
              HasSubstr("is no directory of a run"));
  EXPECT_THAT(refused("", "no-such-program --save " + run_directory()),
              HasSubstr("no-such-program: there is no such program"));
  EXPECT_THAT(refused("", "true"), HasSubstr("has no --save DIR, and --run-dir DIR is not given"));
  EXPECT_EQ(shell(command + " run --run-dir " + run_directory() + " -- true").exit_code, 0);
  EXPECT_THAT(refused("", trainer + " --save " + run_directory()),
              HasSubstr("is a run of true, not of train_gpt"));
  EXPECT_THAT(shell(command + " stop " + run_directory()).output, HasSubstr("no supervisor runs"));
  EXPECT_THAT(shell(command + " report " + (folder_ / "other")).output,
              HasSubstr("is no run of `trireme run`"));
}

TEST_F(SupervisorCommands, SayThatATemplateOfASchedulerIsStartedOutsideOfOne) {
  const Outcome outcome = shell("env -u SLURM_JOB_ID -u SLURM_JOBID HOME=" + folder_.path() +
                                " PATH=" TRIREME_BIN_DIR ":$PATH bash " TRIREME_SOURCE_DIR
                                "/launch/templates/slurm.sbatch");
  EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
  EXPECT_EQ(count(outcome.output, "\n"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("needs --hostfile, or a job of several nodes of a "
                                        "scheduler"));
}

TEST_F(SupervisorCommands, EndAtTheFirstAttemptWhereTheSlurmJobOfTheEnvironmentIsGone) {
  const std::string launcher =
      script("launcher",
             "echo 'srun: error: Unable to confirm allocation for job 17: Invalid job id "
             "specified' >&2\nexit 1\n");
  const Outcome outcome = shell("SLURM_JOB_ID=17 " + command + " run --run-dir " + run_directory() +
                                " --mpirun " + launcher + " -- true");
  EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the Slurm job 17 of the environment does not exist"));
  EXPECT_EQ(count(outcome.output, " ended: "), 1) << outcome.output;
}

TEST_F(SupervisorCommands, QueueASlurmJobAgainThatSlurmDoesNot) {
  // In place of Slurm: a program that notes what it is asked, and mpirun for PROGRAM's exit code.
  const std::string asked = folder_ / "asked";
  script("scontrol",
         "echo \"$*\" >> " + asked + "\n[ $1 = requeue ] || cat " + (folder_ / "config"));
  const std::string launcher = script("launcher", "exit 75\n");
  const std::string line = "SLURM_JOB_ID=17 PATH=" + folder_.path() + ":$PATH " + command +
                           " run --requeue-self --run-dir " + run_directory() + " --mpirun " +
                           launcher + " -- true";
  folder_.write("config", "RequeueExit             = (null)\n");
  const Outcome outcome = shell(line);
  EXPECT_EQ(outcome.exit_code, 75) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("queued Slurm job 17 again"));
  EXPECT_EQ(read_text(asked), "show config\nrequeue 17\n");
  folder_.write("config", "RequeueExit             = 75\n");
  EXPECT_THAT(shell(line).output, HasSubstr("Slurm queues job 17 again (RequeueExit)"));
  EXPECT_EQ(read_text(asked), "show config\nrequeue 17\nshow config\n");
}

TEST_F(SupervisorCommands, WaitNoLongerThanTheyAreAskedTo) {
  start();
  wait_for_progress(1, 0);
  if (HasFatalFailure()) return;
  kill(rank_processes().front(), SIGSTOP);  // it cannot save
  const Outcome stopped = shell(command + " stop " + run_directory() + " --wait 0.3");
  EXPECT_EQ(stopped.exit_code, 1) << stopped.output;
  EXPECT_THAT(stopped.output, HasSubstr("still supervises it after 0.3 s (--wait)"));
  EXPECT_EQ(shell(command + " stop --now --wait 5m " + run_directory()).exit_code, 0);
  EXPECT_FALSE(supervisor::supervisor_of(paths()));
  wait();
}

TEST_F(SupervisorCommands, StopWhileHostsAreChecked) {
  const std::string hosts = folder_.write("hosts", "host0\nhost1\n"), id = folder_ / "id";
  start("--nodes 2 --hostfile " + hosts + " --preflight 'echo $$ > " + id + "; sleep 1000'");
  ASSERT_TRUE(wait_until([&] { return count(read_text(id), "\n") > 0 || !job_->running(); }))
      << output();
  job_->send(SIGTERM);
  EXPECT_EQ(wait(), 75) << output();
  EXPECT_THAT(output(), HasSubstr("stopped before an attempt began"));
  EXPECT_TRUE(wait_until([&] { return kill(std::stoi(read_text(id)), 0) != 0; }));
  expect_nothing_left();
}

TEST_F(SupervisorCommands, StopWhileTheProgramIsAskedForLayouts) {
  const std::string hosts = folder_.write("hosts", "host0\nhost1\n"), id = folder_ / "id";
  const std::string program =
      folder_.write("program", "#!/bin/sh\necho $$ > " + id + "\nsleep 1000\n");
  fs::permissions(program, fs::perms::owner_all);
  start("--nodes 2 --min-nodes 1 --hostfile " + hosts, program);
  ASSERT_TRUE(wait_until([&] { return count(read_text(id), "\n") > 0 || !job_->running(); }))
      << output();
  EXPECT_EQ(shell(command + " stop --wait 5m " + run_directory()).exit_code, 0);
  EXPECT_EQ(wait(), 75) << output();
  EXPECT_THAT(output(), HasSubstr("stopped before an attempt began"));
  EXPECT_TRUE(wait_until([&] { return kill(std::stoi(read_text(id)), 0) != 0; }));
  expect_nothing_left();
}

TEST_F(SupervisorCommands, KnowHostsThatACommandOfTheUserLeavesOut) {
  const std::string hosts = folder_.write("hosts", "host0\nhost1\n");
  start("--nodes 2 --hostfile " + hosts + " --preflight '[ $TRIREME_HOST = host0 ]'");
  EXPECT_EQ(wait(), 69) << output();
  EXPECT_THAT(output(), HasSubstr("host1 does not pass the preflight: --preflight ends with exit"));
  EXPECT_THAT(shell(command + " nodes " + run_directory()).output,
              HasSubstr("host1 does not pass the preflight: --preflight ends with exit code 1\n"));
  EXPECT_EQ(shell(command + " nodes release " + run_directory() + " host0").exit_code, 64);
  EXPECT_EQ(shell(command + " nodes release " + run_directory() + " host1").exit_code, 0);
}

TEST_F(SupervisorCommands, HaveHostsCheckedAtTheSameTime) {
  const std::string hosts = folder_.write("hosts", "host0\nhost1\n"), begun = folder_ / "begun-";
  // Each waits for the other.
  start("--nodes 2 --hostfile " + hosts + " --preflight 'touch " + begun +
        "$TRIREME_HOST; until [ -e " + begun + "host0 ] && [ -e " + begun +
        "host1 ]; do sleep 0.05; done; exit 7'");
  EXPECT_EQ(wait(), 69) << output();
  EXPECT_THAT(output(), HasSubstr("host0 does not pass the preflight: --preflight ends with exit"));
  EXPECT_THAT(output(), HasSubstr("host1 does not pass the preflight: --preflight ends with exit"));
}

TEST_F(SupervisorCommands, WatchesAnotherProgramByItsExitCode) {
  const std::string own = " run --run-dir " + run_directory() +
                          " --on-event 'echo $TRIREME_EVENT >> " + (folder_ / "events") +
                          "' -- sh -c ";
  const Outcome good = shell(command + own + "'exit 0'");
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_THAT(good.output, HasSubstr("sh has no --save: it is supervised by its exit code only"));
  const Outcome bad = shell(command + own + "'exit 7'");
  EXPECT_EQ(bad.exit_code, 70) << bad.output;
  EXPECT_THAT(causes(), ElementsAre("finished", "failed", "failed", "failed"));
  EXPECT_TRUE(wait_until([&] { return count(read_text(folder_ / "events"), "\n") == 10; }))
      << read_text(folder_ / "events");
  expect_nothing_left();
}

TEST_F(SupervisorCommands, EndsWhatTheLauncherLeaves) {
  fs::create_directories(run_directory());
  const std::string launcher =
      folder_.write("launcher", "#!/bin/sh\ntail -F " + run_directory() + "/x &\nexit 0\n");
  fs::permissions(launcher, fs::perms::owner_all);
  const Outcome outcome =
      shell(command + " run --run-dir " + run_directory() + " --mpirun " + launcher + " -- true");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  expect_nothing_left();
}

TEST_F(SupervisorCommands, ContinuesUnderNohupWhenTheTerminalIsGone) {
  const std::string begun = folder_ / "begun", go = folder_ / "go";
  const std::string launcher = folder_.write(
      "launcher", "#!/bin/sh\ntouch " + begun + "\nuntil [ -e " + go + " ]; do sleep 0.05; done\n");
  fs::permissions(launcher, fs::perms::owner_all);
  BackgroundProcess run(
      str("trap '' HUP; exec ", environment(), " TMPDIR=", folder_ / "tmp", " ", command,
          " run --run-dir ", run_directory(), " --mpirun ", launcher, " -- true"),
      folder_ / "log");
  ASSERT_TRUE(wait_until([&] { return fs::exists(begun) || !run.running(); })) << run.output();
  run.send(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // in which it would end the job
  folder_.write("go", "");
  EXPECT_EQ(run.wait().exit_code, 0) << run.output();
  expect_nothing_left();
}

TEST_F(SupervisorCommands, EndsNoProcessThatAnEventHasDetached) {
  const std::string detached = folder_.write(
      "detached", "echo $$ > " + (folder_ / "pid") + "; until [ -e " + (folder_ / "go") +
                      " ]; do sleep 0.05; done; echo lives > " + (folder_ / "said") + "\n");
  const Outcome outcome = shell(command + " run --run-dir " + run_directory() +
                                " --on-event '[ $TRIREME_EVENT = attempt_began ] && setsid sh " +
                                detached + " > /dev/null 2>&1 &' -- sh -c 'until [ -s " +
                                (folder_ / "pid") + " ]; do sleep 0.05; done; sleep 0.2; exit 7'");
  EXPECT_EQ(outcome.exit_code, 70) << outcome.output;
  folder_.write("go", "");
  EXPECT_TRUE(wait_until([&] { return fs::exists(folder_ / "said"); }));
  expect_nothing_left();
}

TEST_F(SupervisorCommands, RunsACommandForAHostThatComesIntoQuarantine) {
  const std::string hosts = folder_.write("hosts", "a\nb\n");
  const std::string launcher = folder_.write(
      "launcher", "#!/bin/sh\necho '  Remote daemon: [[15405,0],2] on node a'\nexit 205\n");
  fs::permissions(launcher, fs::perms::owner_all);
  const Outcome outcome = shell(command + " run --run-dir " + run_directory() + " --hostfile " +
                                hosts + " --nodes 2 --preflight off --mpirun " + launcher +
                                " --on-quarantine 'echo $TRIREME_HOST $TRIREME_EVENT >> " +
                                (folder_ / "drained") + "' -- true");
  EXPECT_EQ(outcome.exit_code, 69) << outcome.output;
  EXPECT_TRUE(wait_until([&] { return count(read_text(folder_ / "drained"), "\n") > 0; }));
  EXPECT_EQ(read_text(folder_ / "drained"), "a quarantine\n");
}

TEST_F(SupervisorCommands, EndsNoProcessThatWasThereBefore) {
  const Outcome outcome =
      shell("sh -c 'sleep 60 & echo $! > " + (folder_ / "stranger") + "; exec " + command +
            " run --run-dir " + run_directory() + " -- true'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const pid_t stranger = std::stoi(read_text(folder_ / "stranger"));
  EXPECT_EQ(kill(stranger, SIGKILL), 0);
}

TEST_F(SupervisorCommands, ReportsWhereTheTimeWent) {
  last_step_ = 20;
  start("", trainer, "--log-level quiet");
  EXPECT_EQ(wait(), 0) << output();
  const Outcome report = shell(command + " report --json --price node=2 " + run_directory());
  const nlohmann::json found = nlohmann::json::parse(report.output);
  EXPECT_EQ(found.at("attempts"), 1);
  EXPECT_EQ(found.at("failures"), 0);
  EXPECT_GT(found.at("useful_s"), 0.0);
  EXPECT_GT(found.at("cost"), 0.0);
  EXPECT_EQ(found.at("gpu_hours"), 0.0);  // its status pages say that it trains on CPUs
  const std::string text = shell(command + " report " + run_directory()).output;
  EXPECT_THAT(text, testing::ContainsRegex("\n2...-..-.. ..:..:..  attempt 1    finished\n"));
  EXPECT_THAT(text, HasSubstr("useful steps"));
  EXPECT_THAT(shell(command + " nodes " + run_directory()).output, HasSubstr("no host was blamed"));
  EXPECT_THAT(shell(command + " status " + run_directory()).output,
              HasSubstr("ended with 0: finished"));
}

}  // namespace
}  // namespace trireme::test
