// Tokens are drawn by their probability, among the most probable ones.
#include "runtime/train/inference/sampler.h"

#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

GenerateOptions options_of(double temperature, Index top_k, double top_p) {
  GenerateOptions options;
  options.temperature = temperature;
  options.top_k = top_k;
  options.top_p = top_p;
  return options;
}

/// The share of each token among draws at evenly spaced points.
std::vector<double> shares(const std::vector<double>& probabilities,
                           const GenerateOptions& options) {
  constexpr int draws = 20000;
  const std::vector<float> logits = logits_of(probabilities);
  Sampler sampler(options, static_cast<Index>(logits.size()));
  std::vector<double> found(logits.size(), 0);
  for (int i = 0; i < draws; ++i)
    found[static_cast<std::size_t>(sampler.draw(logits, (i + 0.5) / draws))] += 1.0 / draws;
  return found;
}

testing::Matcher<double> near(double x) { return testing::DoubleNear(x, 1e-3); }

const std::vector<double> five = {0.1, 0.4, 0.05, 0.3, 0.15};

TEST(Sampler, DrawsByProbability) {
  EXPECT_THAT(shares(five, options_of(1, 0, 1)),
              ElementsAre(near(0.1), near(0.4), near(0.05), near(0.3), near(0.15)));
  EXPECT_THAT(shares({0.2, 0.8}, options_of(0.5, 0, 1)), ElementsAre(near(0.0588), near(0.9412)));
  EXPECT_THAT(shares(five, options_of(0, 0, 1)), ElementsAre(0, near(1), 0, 0, 0));
}

TEST(Sampler, TopKKeepsTheMostProbable) {
  EXPECT_THAT(shares(five, options_of(1, 2, 1)),
              ElementsAre(0, near(4.0 / 7), 0, near(3.0 / 7), 0));
  EXPECT_THAT(shares(five, options_of(1, 1, 1)), ElementsAre(0, near(1), 0, 0, 0));
  EXPECT_THAT(shares(five, options_of(1, 99, 1)),
              ElementsAre(near(0.1), near(0.4), near(0.05), near(0.3), near(0.15)));
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  EXPECT_THAT(shares(five, options_of(1, 0, 0.39)), ElementsAre(0, near(1), 0, 0, 0));
  EXPECT_THAT(shares(five, options_of(1, 0, 0.41)),
              ElementsAre(0, near(4.0 / 7), 0, near(3.0 / 7), 0));
  EXPECT_THAT(shares(five, options_of(1, 0, 0.84)),
              ElementsAre(0, near(4.0 / 8.5), 0, near(3.0 / 8.5), near(1.5 / 8.5)));
}

/// The share that top-p asks for is of what top-k has kept.
TEST(Sampler, TopPIsOfWhatTopKKeeps) {
  EXPECT_THAT(shares(five, options_of(1, 2, 0.56)), ElementsAre(0, near(1), 0, 0, 0));
  EXPECT_THAT(shares(five, options_of(1, 2, 0.58)),
              ElementsAre(0, near(4.0 / 7), 0, near(3.0 / 7), 0));
}

TEST(Sampler, OfEqualOnesTheFirstIsTheMoreProbable) {
  EXPECT_THAT(shares({0.25, 0.25, 0.25, 0.25}, options_of(1, 2, 1)),
              ElementsAre(near(0.5), near(0.5), 0, 0));
  EXPECT_THAT(shares({0.25, 0.25, 0.25, 0.25}, options_of(1, 0, 0.7)),
              ElementsAre(near(1.0 / 3), near(1.0 / 3), near(1.0 / 3), 0));
}

TEST(Sampler, DrawsNothingWhereALogitIsNanOrTheGreatestIsNotFinite) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> wrong[] = {{0, std::nanf(""), 1},
                                      {std::nanf(""), 0, 1},
                                      {0, infinity, 1},
                                      {-infinity, -infinity, -infinity}};
  for (const GenerateOptions& options :
       {options_of(0, 0, 1), options_of(1, 0, 1), options_of(1, 2, 1), options_of(1, 0, 0.9)}) {
    Sampler sampler(options, 3);
    for (const std::vector<float>& logits : wrong)
      EXPECT_EQ(sampler.draw(logits, 0.4), Sampler::none);
    EXPECT_EQ(sampler.draw({-infinity, 3, -infinity}, 0.4), 1);
  }
}

TEST(Sampler, NamesWhatIsOutOfRange) {
  const auto message = [](double temperature, Index top_k, double top_p) {
    return message_of([&] { Sampler(options_of(temperature, top_k, top_p), 5); });
  };
  EXPECT_THAT(message(-1, 0, 1), HasSubstr("temperature is -1"));
  EXPECT_THAT(message(1, -2, 1), HasSubstr("top_k is -2"));
  EXPECT_THAT(message(1, 0, 0), HasSubstr("top_p is 0"));
  EXPECT_THAT(message(1, 0, 1.5), HasSubstr("top_p is 1.5"));
}

}  // namespace
}  // namespace trireme::train
