// Another user of the machine, who knows the key of a run, makes its names in shared directories
// beforehand: nothing of this user's is overwritten, no run is ended, and the other user is named.
#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uid_t other = 12345;
constexpr Index interval = 2;

/// Directories of another user, open to all, removed when the test ends.
class Planted {
 public:
  ~Planted() {
    for (const std::string& path : paths_) fs::remove_all(path);
  }
  void directory(const std::string& path) {
    fs::create_directory(path);
    ::chmod(path.c_str(), 0777);
    give(path);
    paths_.push_back(path);
  }
  /// In such a directory.
  static void link(const std::string& to, const std::string& path) {
    fs::create_symlink(to, path);
    give(path);
  }

 private:
  static void give(const std::string& path) {
    require(::lchown(path.c_str(), other, other) == 0, path, ": cannot be given away");
  }
  std::vector<std::string> paths_;
};

class HostileUsers : public SupervisedRun {
 protected:
  HostileUsers() {
    save_interval_ = 100000;
    folder_.write("thesis", thesis);
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act for another user";
  }
  std::string options() const { return str("--save-memory-interval ", interval); }
  std::string in_memory() const {
    return "/dev/shm/trireme-" + supervisor::key_of(paths(), history().run);
  }
  std::string log_of(Index attempt) const {
    return read_text(paths().attempt(attempt) + "/output.log");
  }
  /// What a job prints reaches the log after its steps reach the file of metrics.
  void expect_in_log(Index attempt, const std::string& text) const {
    EXPECT_TRUE(wait_until(
        [&] { return !job_->running() || log_of(attempt).find(text) != std::string::npos; }));
    EXPECT_THAT(log_of(attempt), HasSubstr(text));
  }
  void wait_for_steps(std::size_t attempts, Index after) {
    ASSERT_TRUE(wait_until([&] {
      return !job_->running() || (history().attempts.size() >= attempts && step() > after);
    })) << output();
    ASSERT_TRUE(job_->running()) << output();
  }
  /// What makes the key known to all.
  void run_once() {
    start("", trainer, options());
    wait_for_steps(1, interval);
    if (!HasFatalFailure()) stop();
  }
  void kill_a_rank_and_see_it_go_on(std::size_t attempt) {
    const Index before = step();
    kill(rank_processes().back(), SIGKILL);
    wait_for_steps(attempt + 1, before + interval);
  }
  /// Links in `directory` under the names of all slots, to a file that is not the run's.
  void plant_slots(const std::string& directory) {
    for (int rank = 0; rank < ranks_; ++rank)
      for (const char* slot : {"a", "b"})
        Planted::link(folder_ / "thesis", str(directory, "/rank-0000", rank, "-", slot, ".h5"));
  }
  void expect_the_thesis_unchanged() const { EXPECT_EQ(folder_.read("thesis"), thesis); }

  static constexpr const char* thesis = "three years of work";
  Planted planted_;
};

TEST_F(HostileUsers, CannotHaveFilesOverwrittenBySnapshots) {
  run_once();
  if (HasFatalFailure()) return;
  const std::string snapshots = in_memory() + "-snapshots";
  planted_.directory(snapshots);
  plant_slots(snapshots);
  start("", trainer, options());
  wait_for_steps(2, step() + 2 * interval);
  if (HasFatalFailure()) return;
  expect_in_log(2, "in " + snapshots + ".2: ");
  kill_a_rank_and_see_it_go_on(2);
  if (HasFatalFailure()) return;
  expect_in_log(3, "from memory of the nodes");
  stop();
  expect_the_thesis_unchanged();
}

TEST_F(HostileUsers, CostNoMoreThanSnapshotsWhereTheyTakeAllNames) {
  run_once();
  if (HasFatalFailure()) return;
  const std::string snapshots = in_memory() + "-snapshots";
  planted_.directory(snapshots);
  for (int number = 2; number < 10; ++number) planted_.directory(str(snapshots, ".", number));
  last_step_ = step() + 20;
  start("", trainer, options());
  EXPECT_EQ(wait(), 0) << output();
  EXPECT_THAT(log_of(2), HasSubstr("it belongs to another user, of id 12345"));
  EXPECT_THAT(log_of(2), HasSubstr("the job continues without snapshots in memory"));
}

TEST_F(HostileUsers, CannotKeepTheNextAttemptFromBeginning) {
  run_once();
  if (HasFatalFailure()) return;
  start("", trainer, options());
  wait_for_steps(2, step() + interval);
  if (HasFatalFailure()) return;
  const std::string key = supervisor::key_of(paths(), history().run);
  for (const std::string& root : {folder_ / "tmp", std::string("/dev/shm")})
    for (const int attempt : {2, 3}) planted_.directory(str(root, "/trireme-", key, "-a", attempt));
  kill_a_rank_and_see_it_go_on(2);
  if (!HasFatalFailure()) stop();
}

TEST_F(HostileUsers, CannotHaveFilesOverwrittenByStatusPages) {
  const std::string directory = str("/dev/shm/trireme-test-", ::getpid());
  planted_.directory(directory);
  fs::create_directory(directory + "/pages");
  for (int rank = 0; rank < 2; ++rank)
    Planted::link(folder_ / "thesis", str(directory, "/pages/rank-0000", rank));
  last_step_ = 2;
  const Outcome outcome =
      shell(str("TRIREME_PAGES=", directory, "/pages ", TRIREME_MPIRUN, " --timeout 100 -np 2 ",
                trainer, training(run_directory(), "")));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("no status page: TRIREME_PAGES=" + directory));
  EXPECT_THAT(outcome.output, HasSubstr("belongs to another user, of id 12345"));
  expect_the_thesis_unchanged();
}

}  // namespace
}  // namespace trireme::test
