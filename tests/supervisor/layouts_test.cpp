// Which layout a number of ranks gives, and what the program is asked for it.
#include "launch/supervisor/decide/layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::supervisor::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Lt;

/// A program with tensor size 2 whose batch divides by the data sizes 1, 2 and 8; with the options
/// of choice 1 every number of ranks is legal.
struct Program {
  std::vector<Layout> answer(std::size_t choice, const std::vector<Index>& ranks) {
    asked.push_back(ranks);
    std::vector<Layout> all;
    if (!answers) return all;
    for (const Index count : ranks) {
      Layout layout{.ranks = count, .pipeline = 1, .tensor = choice == 0 ? 2 : 1};
      layout.data = count / layout.tensor;
      const bool divides = count % 2 == 0 && (layout.data <= 2 || layout.data == 8);
      layout.legal = choice == 1 || divides;
      all.push_back(layout);
    }
    return all;
  }
  /// What `use` returns once it has all answers.
  template <class F>
  auto ask(KnownLayouts& layouts, F use) {
    for (;;) {
      const auto found = use();
      const auto question = layouts.question();
      if (!question) return found;
      layouts.answer(*question, answer(question->choice, question->ranks));
    }
  }
  std::optional<Layout> largest(KnownLayouts& layouts, Index ranks) {
    return ask(layouts, [&] { return layouts.largest(ranks); });
  }
  std::optional<Layout> at(KnownLayouts& layouts, Index ranks) {
    return ask(layouts, [&] { return layouts.at(0, ranks); });
  }
  std::vector<std::vector<Index>> asked;
  bool answers = true;
};

TEST(Layouts, TakeTheLargestLegalDataSize) {
  Program program;
  KnownLayouts layouts(1);
  EXPECT_EQ(program.largest(layouts, 17)->ranks, 16);
  EXPECT_EQ(program.largest(layouts, 15)->ranks, 4);
  EXPECT_EQ(program.largest(layouts, 15)->text(), "pp1 dp2 tp2");
  EXPECT_EQ(program.largest(layouts, 3)->ranks, 2);
  EXPECT_FALSE(program.largest(layouts, 1));
}

TEST(Layouts, AskOnceForEachNumberAndOnlyForMultiplesOfTheUnit) {
  Program program;
  KnownLayouts layouts(1);
  ASSERT_TRUE(program.at(layouts, 16));
  program.largest(layouts, 15);
  program.largest(layouts, 15);
  ASSERT_EQ(program.asked.size(), 2U);
  EXPECT_THAT(program.asked[1], ElementsAre(14, 12, 10, 8, 6, 4, 2));
}

TEST(Layouts, AskALargeProgramForAFewAtATime) {
  Program program;
  KnownLayouts layouts(1);
  EXPECT_EQ(program.largest(layouts, 1001)->ranks, 16);
  for (const auto& ranks : program.asked) EXPECT_THAT(ranks.size(), Lt(17U));
}

TEST(Layouts, OfTheOtherOptionsCountWhereTheProgramsOwnHaveNone) {
  Program program;
  KnownLayouts layouts(2);
  EXPECT_EQ(program.largest(layouts, 7)->choice, 0U);
  EXPECT_EQ(program.largest(layouts, 1)->choice, 1U);
  EXPECT_EQ(program.largest(layouts, 1)->text(), "pp1 dp1 tp1");
}

TEST(Layouts, ThatTheProgramRefusedWhenItStartedAreNotTakenAgain) {
  Program program;
  KnownLayouts layouts(1);
  layouts.refuse(*program.largest(layouts, 4));
  EXPECT_EQ(program.largest(layouts, 4)->ranks, 2);
  EXPECT_FALSE(program.at(layouts, 4)->legal);
}

TEST(Layouts, OfAProgramThatGivesNoAnswerAreNoneAndItIsNotAskedAgain) {
  Program program;
  program.answers = false;
  KnownLayouts layouts(1);
  EXPECT_FALSE(program.at(layouts, 4));
  EXPECT_FALSE(program.largest(layouts, 4));
  EXPECT_THAT(program.asked, ElementsAre(ElementsAre(4), ElementsAre(3, 2, 1)));
}

TEST(Layouts, OfAProgramThatNeedsTooLongForAllAreAskedForTheRest) {
  KnownLayouts layouts(1);
  EXPECT_FALSE(layouts.largest(5));
  ASSERT_TRUE(layouts.question());
  const LayoutQuestion asked = *layouts.question();
  EXPECT_THAT(asked.ranks, ElementsAre(5, 4, 3, 2, 1));
  layouts.answer(asked, {{.ranks = 5}});  // and no answer to 4, when its time was over
  EXPECT_FALSE(layouts.largest(5));
  ASSERT_TRUE(layouts.question());
  EXPECT_THAT(layouts.question()->ranks, ElementsAre(3, 2, 1));
}

TEST(Layouts, ThatAreChosenByTheNumberOfRanksSayNothingOfOtherNumbers) {
  KnownLayouts layouts(1);
  layouts.answer({0, {8}}, parse_layouts(R"({"ranks":8,"legal":true,"data":1,"pipeline":2,)"
                                         R"("tensor":4,"configuration":{"--plan":"auto"}})"));
  EXPECT_EQ(layouts.at(0, 8)->text(), "pp2 dp1 tp4");
  EXPECT_FALSE(layouts.largest(6));
  ASSERT_TRUE(layouts.question());
  EXPECT_THAT(layouts.question()->ranks, ElementsAre(6, 5, 4, 3, 2, 1));
}

TEST(Layouts, AskNothingThatALargerLegalOneMakesNeedless) {
  Program program;
  KnownLayouts layouts(1);
  program.at(layouts, 4);
  EXPECT_EQ(program.largest(layouts, 5)->ranks, 4);
  EXPECT_EQ(program.asked.size(), 1U);
  EXPECT_EQ(program.largest(layouts, 6)->ranks, 4);
  EXPECT_THAT(program.asked.back(), ElementsAre(6));
}

TEST(Layouts, AreReadFromLinesAmongOthers) {
  const auto found = parse_layouts(
      "hello\n{\"ranks\":8,\"legal\":true,\"data\":4,\"pipeline\":1,\"tensor\":2,\"rank_bytes\":9}"
      "\n"
      "{\"ranks\":6,\"legal\":false,\"problems\":[\"no\",\"never\"]}\n[1]\n{}\n"
      "{\"ranks\":4,\"legal\":true,\"data\":4,\"pipeline\":1,\"tensor\":2}\n{\"ranks\":\"x\"}\n");
  ASSERT_EQ(found.size(), 2U);  // 4 ranks are not 4 x 1 x 2
  EXPECT_TRUE(found[0].legal);
  EXPECT_EQ(found[0].rank_bytes, 9);
  EXPECT_EQ(found[1].problem, "no");
  EXPECT_THAT(parse_layouts(""), IsEmpty());
}

}  // namespace
}  // namespace trireme::supervisor::test
