#include "tests/virtual_clock/tasks.h"

#include <gmock/gmock.h>

#include "trireme/core/error.h"

#include "tests/support/message_of.h"

namespace trireme::virtual_clock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const auto nothing = [] { return std::string("nothing"); };

TEST(Tasks, RunUntilTheyWaitOneAfterTheOther) {
  Tasks tasks(3);
  std::vector<int> order;
  int arrived = 0;
  tasks.run([&](int task) {
    order.push_back(task);
    ++arrived;
    tasks.wait_until([&] { return arrived == 3; }, nothing);
    order.push_back(10 + task);
  });
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 12, 10, 11));
}

TEST(Tasks, RunAgain) {
  Tasks tasks(2);
  int runs = 0;
  for (int i = 0; i < 2; ++i) tasks.run([&](int) { ++runs; });
  EXPECT_EQ(runs, 4);
}

TEST(Tasks, RethrowTheFirstErrorOnceAllHaveUnwound) {
  struct Unwound {
    int& count;
    ~Unwound() { ++count; }
  };
  Tasks tasks(3);
  int unwound = 0;
  EXPECT_EQ(message_of([&] {
              tasks.run([&](int task) {
                const Unwound here{unwound};
                if (task == 1) throw Error("a mistake");
                tasks.wait_until([] { return false; }, nothing);
              });
            }),
            "a mistake");
  EXPECT_EQ(unwound, 3);
}

TEST(Tasks, SayWhatEachWaitsForWhenNoneCanContinue) {
  Tasks tasks(2);
  const std::string message = message_of([&] {
    tasks.run([&](int task) {
      tasks.wait_until([] { return false; }, [task] { return "number " + std::to_string(task); });
    });
  });
  EXPECT_THAT(message, HasSubstr("rank 0 waits for number 0; rank 1 waits for number 1"));
}

}  // namespace
}  // namespace trireme::virtual_clock
