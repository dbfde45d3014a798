// Supervision: a supervisor in a FakeWorld, and what a test asks about its run.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/supervisor/fake_world.h"

namespace trireme::supervisor::test {

inline Settings settings_of_a_test() {
  Settings settings;
  settings.program = "train_gpt";
  settings.run = "run-1";
  settings.pid = 7;
  settings.host = "here";
  return settings;
}

class Supervision : public testing::Test {
 protected:
  int run() {
    Supervisor supervisor(world_, world_, settings_, replay(world_.ledger));
    const int code = supervisor.run();
    trireme::test::record("exit", std::to_string(code));
    return code;
  }
  History history() const { return replay(world_.ledger); }
  std::vector<std::string> causes() const {
    std::vector<std::string> all;
    for (const Attempt& attempt : history().attempts)
      all.push_back(attempt.ended ? name(attempt.ended->cause) : "?");
    return all;
  }
  /// From the end of an attempt to the start of the next.
  std::vector<double> waits() const {
    std::vector<double> all;
    for (const Attempt& attempt : history().attempts) all.push_back(attempt.began.waited_s);
    return all;
  }

  FakeWorld world_;
  Settings settings_ = settings_of_a_test();
};

}  // namespace trireme::supervisor::test
