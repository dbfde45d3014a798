// Random layouts of random small models agree with one rank: combinations that nobody has thought
// of. The seed is fixed, so that CI has the same ones each time; random_layouts_long_test.cpp draws
// others each night.
#include "tests/support/random_layouts.h"

#include "tests/support/faulty_mesh.h"

namespace trireme::test {
namespace {

constexpr std::uint64_t seed = 1;

TEST(RandomLayouts, AgreeWithOneRank) {
  RandomLayouts(number_in_environment("TRIREME_SEED", seed))
      .expect_equivalent(number_in_environment("TRIREME_DRAWS", 40));
}

TEST(RandomLayouts, AreTheSameForTheSameSeedAndDifferForAnother) {
  const RandomLayouts layouts(seed), others(seed + 1);
  const RandomTraining first = layouts.draw(3), again = layouts.draw(3);
  EXPECT_EQ(first.on_all_ranks(), again.on_all_ranks());
  EXPECT_NE(first.layout, layouts.draw(4).layout);
  EXPECT_NE(first.layout, others.draw(3).layout);
}

/// The first draws whose layouts have `words`.
std::vector<RandomTraining> some_with(const RandomLayouts& layouts, const std::string& words) {
  std::vector<RandomTraining> found;
  for (std::uint64_t i = 0; found.size() < 3; ++i) {
    RandomTraining training = layouts.draw(i);
    if (training.layout.find(words) != std::string::npos) found.push_back(std::move(training));
  }
  return found;
}

void expect_seen(RandomLayouts& layouts, const RandomTraining& training, const Decorate& plant) {
  const Difference difference = layouts.compare(training, plant);
  EXPECT_FALSE(within_limits(difference))
      << training.on_all_ranks() << ": " << describe(difference);
}

// The comparison can fail: a sum that is left out, and options that the layout has and one rank has
// not.
TEST(RandomLayouts, ASumThatIsLeftOutIsSeen) {
  RandomLayouts layouts(seed);
  Faults faults;
  faults.on_tensor = [](Communicator&, Elements, Index n, Stream&) { return n == 2; };
  for (const RandomTraining& training : some_with(layouts, "--tp "))
    expect_seen(layouts, training,
                [&](Mesh& real) { return std::make_unique<FaultyMesh>(real, faults); });
}

TEST(RandomLayouts, AnOptionThatOneRankHasNotIsSeen) {
  RandomLayouts layouts(seed);
  for (const char* option : {"--skip-samples 9-9 ", "--init-method-std 0.020001 "})
    for (RandomTraining training : some_with(layouts, "--pp ")) {
      training.layout += option;
      expect_seen(layouts, training, {});
    }
}

}  // namespace
}  // namespace trireme::test
