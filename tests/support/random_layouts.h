// Random trainings on ranks that are threads, each compared with one rank (invariant 1 of
// docs/concepts/architecture.md). The environment says how many (TRIREME_DRAWS), and of which seed
// (TRIREME_SEED).
#pragma once

#include <cstdlib>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/random_training.h"
#include "tests/support/training_harness.h"

namespace trireme::test {

inline std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class RandomLayouts {
 public:
  explicit RandomLayouts(std::uint64_t seed) : seed_(seed) {}

  RandomTraining draw(std::uint64_t number) const {
    return random_training(seed_, number, harness_.data());
  }

  /// Draws 0 to `draws` - 1.
  void expect_equivalent(std::uint64_t draws) {
    fmt::print("# TRIREME_SEED={} TRIREME_DRAWS={}\n", seed_, draws);
    for (std::uint64_t i = 0; i < draws; ++i) expect_equivalent(i, draw(i));
  }

  /// `decorate`: see train_gpt_on_threads.
  Difference compare(const RandomTraining& training, const Decorate& decorate = {}) {
    const TrainingRun one = harness_.train(ranks_as_threads(1), training.on_one_rank());
    return test::compare(
        one, harness_.train(ranks_as_threads(training.ranks, decorate), training.on_all_ranks()));
  }

 private:
  void expect_equivalent(std::uint64_t number, const RandomTraining& training) {
    const std::string which = str("draw ", number, " of TRIREME_SEED=", seed_, ": ", training.ranks,
                                  " ranks, ", training.on_all_ranks());
    try {
      const Difference difference = compare(training);
      fmt::print("# {}, {} ranks: {}\n", number, training.ranks, describe(difference));
      EXPECT_TRUE(within_limits(difference)) << which << ": " << describe(difference);
    } catch (const Error& error) {
      ADD_FAILURE() << which << ": " << error.what();
    }
  }

  std::uint64_t seed_;
  TrainingHarness harness_{"", ""};
};

}  // namespace trireme::test
