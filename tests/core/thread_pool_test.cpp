// How a thread pool cuts work, and what it does with exceptions and nested jobs.
#include "trireme/core/thread_pool.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

using Parts = std::set<std::pair<Index, Index>>;

Parts parts_of(ThreadPool& pool, Index count, Index grain) {
  Parts parts;
  std::mutex mutex;
  pool.parallel_for(count, grain, [&](Index begin, Index end) {
    const std::lock_guard lock(mutex);
    parts.insert({begin, end});
  });
  return parts;
}

TEST(ThreadPool, CoversEveryItemOnceForManySizes) {
  for (const int threads : {1, 2, 3, 4, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const Index count : {0, 1, 2, 3, 5, 8, 31, 33, 1000, 4097})
      for (const Index grain : {-1, 0, 1, 2, 7, 1000, 100000}) {
        std::vector<int> visits(static_cast<std::size_t>(count), 0);
        pool.parallel_for(count, grain, [&](Index begin, Index end) {
          for (Index i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        for (const int n : visits) ASSERT_EQ(n, 1) << threads << " " << count << " " << grain;
      }
  }
}

TEST(ThreadPool, PartsHaveAtLeastGrainItemsAndAreAtMostThreads) {
  ThreadPool pool(4);
  EXPECT_EQ(parts_of(pool, 10, 100), (Parts{{0, 10}}));
  EXPECT_EQ(parts_of(pool, 8, 1), (Parts{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
  EXPECT_EQ(parts_of(pool, 10, 5), (Parts{{0, 5}, {5, 10}}));
  for (const auto& [begin, end] : parts_of(pool, 11, 3)) EXPECT_GE(end - begin, 3);
}

TEST(ThreadPool, TheCutDependsOnCountGrainAndThreadsOnly) {
  ThreadPool a(3), b(3);
  for (int repeat = 0; repeat < 50; ++repeat)
    EXPECT_EQ(parts_of(a, 1001, 10), parts_of(b, 1001, 10));
}

TEST(ThreadPool, ResultsAreVisibleToTheCallerOverManyJobs) {
  ThreadPool pool(4);
  std::vector<Index> values(64, 0);
  for (int job = 0; job < 5000; ++job)
    pool.parallel_for(64, 1, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] += i;
    });
  for (Index i = 0; i < 64; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], 5000 * i);
}

TEST(ThreadPool, WakesHelpersThatWentToSleep) {
  ThreadPool pool(3);
  for (int job = 0; job < 10; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long enough to sleep
    std::atomic<int> parts{0};
    pool.parallel_for(3, 1, [&](Index, Index) { ++parts; });
    EXPECT_EQ(parts, 3);
  }
}

TEST(ThreadPool, RethrowsTheExceptionOfAnyPartAndContinues) {
  ThreadPool pool(4);
  for (Index bad = 0; bad < 4; ++bad) {
    const auto fails = [&](Index begin, Index) {
      if (begin == bad) throw Error(str("part ", begin));
    };
    try {
      pool.parallel_for(4, 1, fails);
      FAIL() << "part " << bad << " did not throw";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()), str("part ", bad));
    }
    EXPECT_EQ(parts_of(pool, 4, 1).size(), 4u);  // the failure is not reported twice
  }
}

TEST(ThreadPool, RunsEveryPartEvenWhenAllThrow) {
  ThreadPool pool(4);
  std::atomic<int> parts{0};
  const auto all_fail = [&](Index, Index) {
    ++parts;
    throw Error("no");
  };
  EXPECT_THROW(pool.parallel_for(4, 1, all_fail), Error);
  EXPECT_EQ(parts, 4);
}

TEST(ThreadPool, NumbersTheThreadsByPart) {
  ThreadPool pool(4);
  std::vector<int> thread(4, -1);
  pool.parallel_for(4, 1, [&](Index begin, Index) {
    thread[static_cast<std::size_t>(begin)] = ThreadPool::current_thread();
  });
  EXPECT_EQ(thread, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(ThreadPool::current_thread(), 0);
}

TEST(ThreadPool, RefusesANestedJobInsteadOfHanging) {
  ThreadPool pool(2);
  const auto nested = [&](Index, Index) { pool.parallel_for(2, 1, [](Index, Index) {}); };
  EXPECT_THROW(pool.parallel_for(2, 1, nested), Error);
  EXPECT_EQ(parts_of(pool, 2, 1).size(), 2u);
}

TEST(ThreadPool, NeedsAtLeastOneThread) { EXPECT_THROW(ThreadPool(0), Error); }

TEST(ThreadPool, ManyPoolsSideBySideDoNotDisturbEachOther) {
  std::vector<std::thread> ranks;
  std::atomic<Index> total{0};
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&] {
      ThreadPool pool(3);
      for (int job = 0; job < 200; ++job)
        pool.parallel_for(30, 1, [&](Index begin, Index end) { total += end - begin; });
    });
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(total, 4 * 200 * 30);
}

}  // namespace
}  // namespace trireme
