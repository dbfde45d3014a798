// The directory of a run: folders of attempts that go.
#include "launch/supervisor/machine/run_directory.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "trireme/options/problems.h"

#include "tests/support/recorded_problems.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

namespace fs = std::filesystem;

class RunDirectory : public testing::Test {
 protected:
  RunDirectory() { fs::create_directory(folder_ / "work"); }
  void begin(Index attempt) const { fs::create_directories(paths_.attempt(attempt)); }

  ScratchDirectory folder_;
  const Paths paths_{folder_ / "run"};
};

TEST_F(RunDirectory, KeepsTheLastTenAttempts) {
  for (Index attempt = 1; attempt <= 12; ++attempt) begin(attempt);
  forget_attempts(paths_, 13);
  EXPECT_FALSE(fs::exists(paths_.attempt(3)));
  EXPECT_TRUE(fs::exists(paths_.attempt(4)));
}

TEST_F(RunDirectory, IsFinishedByTheIterationsOfAFileOfOptions) {
  const std::string file = folder_.write("job.toml", "[training]\ntrain-iters = 1_200\n");
  const std::string run = folder_ / "run";
  fs::create_directory(run);
  folder_.write("run/metrics.jsonl", "{\"step\":1199,\"step_ms\":1}\n");
  const Job job = make_job({"p", "--save", run, "--config", file}, "");
  EXPECT_EQ(iterations_of(job), 1200);
  EXPECT_FALSE(training_is_finished(job));
  folder_.write("run/metrics.jsonl", "{\"step\":1200,\"step_ms\":1}\n");
  EXPECT_TRUE(training_is_finished(job));
  EXPECT_EQ(iterations_of(make_job({"p", "--save", run, "--config", file, "--train-iters=7"}, "")),
            7);
}

TEST_F(RunDirectory, ThatCannotBeMadeIsRefusedByItsOption) {
  fs::create_symlink("loop", folder_ / "loop");
  const std::string long_name = folder_ / std::string(300, 'a');
  for (const auto& [run, why] : {std::pair(folder_ / "loop", "Too many levels of symbolic links"),
                                 std::pair(long_name, "File name too long")}) {
    trireme::test::RecordedProblems problems;
    make_run_directory(make_job({"p", "--save", run}, ""), problems);
    ASSERT_EQ(problems.all().size(), 1U);
    EXPECT_THAT(problems.all().front(),
                testing::AllOf(testing::StartsWith("--save " + run), testing::HasSubstr(why)));
    EXPECT_NO_THROW(check_run(make_job({"p", "--save", run}, ""), read_history(Paths(run))));
  }
}

// A pipe would be waited for, and a directory cannot be removed as a file is.
TEST_F(RunDirectory, HasPlainFilesOnlyWhereTheSupervisorHasItsOwn) {
  const Job job = make_job({"p", "--save", paths_.run}, "");
  fs::create_directories(paths_.folder);
  for (const std::string& file :
       {paths_.lock, paths_.ledger, paths_.nodes, paths_.stop, paths_.preflight, paths_.place})
    for (const std::string what : {"a pipe", "a directory"}) {
      if (what == "a pipe")
        ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
      else
        fs::create_directory(file);
      Problems problems;
      make_run_directory(job, problems);
      EXPECT_THAT(problems.all(),
                  testing::ElementsAre("--save " + paths_.run + ": " + file + " is " + what +
                                       ", but trireme run has a file there: remove it, or give "
                                       "another directory"));
      fs::remove(file);
    }
}

TEST_F(RunDirectory, HasAKeyThatItsCopyHasNot) {
  EXPECT_NE(key_of(paths_, "run-1"), key_of(Paths(folder_ / "copy"), "run-1"));
  EXPECT_NE(key_of(paths_, "run-1"), key_of(paths_, "run-2"));
  EXPECT_EQ(key_of(paths_, "run-1"), key_of(Paths(folder_ / "work/../run"), "run-1"));
}

TEST_F(RunDirectory, KeepsItsKeyWhenItIsRenamedAndItsCopyHasAnother) {
  const fs::path run = paths_.run, copy = folder_ / "copy", renamed = folder_ / "renamed";
  fs::create_directories(paths_.folder);
  LedgerFile(paths_.ledger).append(to_json(SupervisionBegan{0, 1, "host", "run-1", "p"}));
  const std::string key = key_of(paths_, "run-1");
  keep_place(paths_, "run-1");
  fs::copy(run, copy, fs::copy_options::recursive);
  EXPECT_EQ(key_of(paths_, "run-1"), key);
  EXPECT_NE(key_of(Paths(copy), "run-1"), key);
  keep_place(Paths(copy), "run-1");
  fs::rename(run, renamed);
  EXPECT_EQ(key_of(Paths(renamed), "run-1"), key);
  keep_place(Paths(renamed), "run-1");
  fs::rename(renamed, folder_ / "again");
  EXPECT_EQ(key_of(Paths(folder_ / "again"), "run-1"), key);
  EXPECT_NE(key_of(Paths(copy), "run-1"), key);
}

// Else two runs would share their snapshots, and one would end the processes of the other.
TEST_F(RunDirectory, ThatWasRenamedHasAKeyThatItsCopyHasNot) {
  const fs::path renamed = folder_ / "renamed", copy = folder_ / "copy";
  fs::create_directories(paths_.folder);
  LedgerFile(paths_.ledger).append(to_json(SupervisionBegan{0, 1, "host", "run-1", "p"}));
  const std::string key = key_of(paths_, "run-1");
  keep_place(paths_, "run-1");
  fs::rename(paths_.run, renamed);
  fs::copy(renamed, copy, fs::copy_options::recursive);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(key_of(Paths(copy), "run-1"), key);
    EXPECT_EQ(key_of(Paths(renamed), "run-1"), key);
    keep_place(Paths(i == 0 ? copy : renamed), "run-1");
  }
}

TEST_F(RunDirectory, KeepsTheKeyOfAVersionThatNotedThePathAlone) {
  fs::create_directories(paths_.folder);
  const std::string elsewhere = folder_ / "first";
  folder_.write("run/supervisor/place", elsewhere);
  EXPECT_EQ(key_of(paths_, "run-1"), key_of(Paths(elsewhere), "run-1"));
}

}  // namespace
}  // namespace trireme::supervisor::test
