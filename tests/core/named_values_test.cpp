// The names of the values of an enumeration.
#include "trireme/core/named_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

enum class Fruit { apple, pear };

const char* name(Fruit fruit) {
  switch (fruit) {
    case Fruit::apple:
      return "apple";
    case Fruit::pear:
      return "pear";
  }
  return "";
}

TEST(NamedValues, AreTheEnumeratorsInOrder) {
  EXPECT_THAT(named_values<Fruit>(), testing::ElementsAre(testing::Pair("apple", Fruit::apple),
                                                          testing::Pair("pear", Fruit::pear)));
}

}  // namespace
}  // namespace trireme
