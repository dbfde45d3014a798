// The thread that writes checkpoints: one job at a time, its exception, its end.
#include "runtime/store/write/worker.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

TEST(Worker, DoesOneJobAfterTheOther) {
  Worker worker;
  EXPECT_TRUE(worker.finished());
  worker.wait();
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    worker.start([&] { ++done; });
    worker.wait();
    EXPECT_TRUE(worker.finished());
    EXPECT_EQ(done, i + 1);
  }
}

TEST(Worker, WorksBesideItsOwnerAndRefusesASecondJob) {
  Worker worker;
  std::atomic<bool> go{false};
  std::atomic<std::thread::id> worked_by{};
  worker.start([&] {
    while (!go) std::this_thread::yield();
    worked_by = std::this_thread::get_id();
  });
  EXPECT_FALSE(worker.finished());
  EXPECT_THROW(worker.start([] {}), Error);
  go = true;
  worker.wait();
  EXPECT_NE(worked_by.load(), std::this_thread::get_id());
}

TEST(Worker, HandsOutAnExceptionOnce) {
  Worker worker;
  worker.start([] { throw std::runtime_error("bad disk"); });
  EXPECT_THROW(worker.wait(), std::runtime_error);
  worker.wait();
  worker.start([] { throw std::runtime_error("bad disk"); });
  while (!worker.finished()) std::this_thread::yield();
  bool ran = false;
  EXPECT_THROW(worker.start([&] { ran = true; }), std::runtime_error);
  worker.start([&] { ran = true; });
  worker.wait();
  EXPECT_TRUE(ran);
}

TEST(Worker, FinishesItsJobBeforeItEnds) {
  bool done = false;
  {
    Worker worker;
    worker.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    });
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace trireme
