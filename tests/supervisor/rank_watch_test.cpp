// What the supervisor makes of the status pages of an attempt. The pages are this process's; the
// time is a number.
#include "launch/supervisor/machine/rank_watch.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/observe/status_page.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using observe::Phase;
using observe::StatusPage;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Two ranks in step 3: rank 0 waits for rank 1 in an all-reduce and polls, rank 1 computes.
class RankWatches : public testing::Test {
 protected:
  RankWatches() {
    for (StatusPage* page : {&waiting_, &computing_}) {
      page->enter(Phase::step);
      for (Index step = 1; step <= 2; ++step) {
        page->begin_step(step);
        page->end_step(step, 1, 1);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a gap: steps are known
      page->begin_step(3);
    }
    computing_.begin_op(0, computing_.add_name("attention"));
    const observe::GroupId data = waiting_.add_group("data", std::array{0, 1});
    data_ = computing_.add_group("data", std::array{0, 1});
    waiting_.wait_for(std::array{waiting_.begin(data, {observe::OperationKind::all_reduce})});
  }
  std::string pages() const { return folder_ / "pages"; }
  std::string verdict_path() const { return folder_ / verdict_file; }
  /// Longer than the time after which a rank without a sign of life is frozen.
  void let_time_pass() {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    waiting_.heartbeat();
  }

  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  StatusPage waiting_{folder_ / "pages", 0, 2}, computing_{folder_ / "pages", 1, 2};
  observe::GroupId data_;  // of rank 1
  RankWatch watch_{{folder_ / "pages", folder_.path(), 2, 1.0}};
};

TEST_F(RankWatches, EndTheJobThatOneRankHoldsUpAndSayWhich) {
  EXPECT_FALSE(watch_.has_pages());
  EXPECT_FALSE(watch_.observe(1));
  EXPECT_TRUE(watch_.has_pages());
  let_time_pass();
  std::optional<Hang> hang;
  for (double now_s = 1; now_s < 20 && !hang; now_s += 0.1) hang = watch_.observe(now_s);
  ASSERT_TRUE(hang);
  EXPECT_TRUE(hang->end);
  EXPECT_THAT(hang->sentence, HasSubstr("hang: rank 1 ("));
  EXPECT_THAT(hang->sentence, HasSubstr("has computed \"attention\" for "));
  EXPECT_EQ(hang->hosts.size(), 1U);
  std::ifstream in(verdict_path());
  const Json verdict = parse_json(std::string(std::istreambuf_iterator<char>(in), {}));
  EXPECT_EQ(std::get<std::string>(verdict.find("sentence")->value), hang->sentence);
  EXPECT_EQ(std::get<bool>(verdict.find("ended")->value), true);
  EXPECT_EQ(std::get<Json::Array>(verdict.find("stacks")->value).size(), 2U);
}

TEST_F(RankWatches, ForgetASuspicionWhenTheJobMoves) {
  computing_.wait_for(std::array{computing_.begin(data_, {observe::OperationKind::all_reduce})});
  std::optional<Hang> hang;
  double now_s = 1;
  for (; now_s < 20 && !hang; now_s += 0.1) {
    for (StatusPage* page : {&waiting_, &computing_}) page->heartbeat();
    hang = watch_.observe(now_s);
  }
  ASSERT_TRUE(hang);
  EXPECT_FALSE(hang->end) << hang->sentence;
  EXPECT_TRUE(std::filesystem::exists(verdict_path()));
  computing_.progressed();
  hang.reset();
  for (const double end_s = now_s + 0.5; now_s < end_s && !hang; now_s += 0.1)
    hang = watch_.observe(now_s);
  ASSERT_TRUE(hang);
  EXPECT_EQ(hang->sentence, "the job moves again");
  EXPECT_FALSE(std::filesystem::exists(verdict_path()));
}

TEST_F(RankWatches, SayWhereARankWasWhenItEnded) {
  EXPECT_EQ(watch_.last_place(1), "");  // no page is seen so far
  EXPECT_FALSE(watch_.observe(1));
  EXPECT_THAT(watch_.last_place(1), HasSubstr("rank 1 ("));
  EXPECT_THAT(watch_.last_place(1), HasSubstr("), in \"attention\""));
  EXPECT_THAT(watch_.last_place(1), HasSubstr(", step 3"));
  EXPECT_THAT(watch_.last_place(0), HasSubstr("), waiting for other ranks, step 3"));
  EXPECT_EQ(watch_.last_place(-1), "");
  EXPECT_EQ(watch_.last_place(2), "");
}

TEST_F(RankWatches, SayHowManyGpusARankHas) {
  EXPECT_EQ(watch_.gpus_per_rank(), -1);
  for (const auto& [sharing, gpus] : {std::pair(0, 0.0), std::pair(1, 1.0), std::pair(4, 0.25)}) {
    computing_.set_sharing(sharing);  // the other rank says nothing
    EXPECT_EQ(watch_.gpus_per_rank(), gpus);
  }
}

TEST_F(RankWatches, SayWhyNoRankMovesLongBeforeThatIsAHang) {
  const auto reports = [&] {
    return std::vector{observe::report_of(observe::PageReader(observe::page_path(pages(), 0))),
                       observe::report_of(observe::PageReader(observe::page_path(pages(), 1)))};
  };
  EXPECT_EQ(describe_stall(reports()), "");  // it has just moved
  let_time_pass();
  let_time_pass();
  std::vector<observe::RankReport> found = reports();
  EXPECT_THAT(describe_stall(found), testing::StartsWith("rank 1 ("));
  EXPECT_THAT(describe_stall(found), HasSubstr(") has computed \"attention\" for 1."));
  found[1].state.state = 'T';  // as the kernel shows it
  EXPECT_THAT(describe_stall(found), HasSubstr(") is stopped (SIGSTOP), step 3; rank 0 waits"));
  EXPECT_EQ(describe_process(found[1]), "stopped (SIGSTOP)");
  found[1].state.state = 'Z';  // its parent has died before it, for example
  EXPECT_EQ(describe_process(found[1]), "gone");
  EXPECT_EQ(describe_process(found[0]), "running");
  computing_.progressed();
  EXPECT_EQ(describe_stall(reports()), "");
}

TEST_F(RankWatches, SayNothingOfProgramsWithoutPages) {
  RankWatch other({folder_ / "none", folder_.path(), 2, 0.2});
  for (double now_s = 0; now_s < 100; now_s += 0.1) EXPECT_FALSE(other.observe(now_s));
  EXPECT_FALSE(other.has_pages());
}

TEST(SlowRanks, AreNamedAmongThoseOfTheirStage) {
  std::vector<observe::PageState> pages;
  for (int rank = 0; rank < 8; ++rank) {
    observe::PageState& page = pages.emplace_back();
    page.rank = rank;
    page.host = "n1";
    page.coordinates = rank < 4 ? "pp0 dp0 tp0" : "pp1 dp0 tp0";
    const Index own = rank < 4 ? 100'000'000 : 300'000'000;  // stages may differ
    for (Index step = 1; step <= 20; ++step)
      page.steps.push_back({step, rank == 5 ? own * 3 / 2 : own + 1000 * rank});
  }
  EXPECT_THAT(describe_slow(pages),
              ElementsAre("rank 5 (n1) takes 1.50 times as long to compute a step as others of its "
                          "stage"));
  pages[5].steps = pages[4].steps;
  EXPECT_THAT(describe_slow(pages), IsEmpty());
}

TEST(SlowRanks, AreNotThoseThatRunMoreMicroBatches) {
  std::vector<observe::PageState> pages;
  for (int rank = 0; rank < 8; ++rank) {
    observe::PageState& page = pages.emplace_back();
    page.rank = rank;
    page.host = "n1";
    page.coordinates = "pp0 dp" + std::to_string(rank) + " tp0";
    page.micro_batches = rank < 4 ? 6 : 2;
    for (Index step = 1; step <= 20; ++step)
      page.steps.push_back({step, page.micro_batches * 100'000'000 + 1000 * rank});
  }
  EXPECT_THAT(describe_slow(pages), IsEmpty());
  for (observe::StepTime& step : pages[6].steps) step.compute_ns *= 2;
  EXPECT_THAT(describe_slow(pages),
              ElementsAre("rank 6 (n1) takes 2.00 times as long to compute a step as others of its "
                          "stage"));
}

}  // namespace
}  // namespace trireme::supervisor::test
