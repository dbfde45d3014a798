// The JSON reader keeps the order of members and refuses texts that are too long or too deep.
#include "runtime/core/json.h"

#include <string>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

TEST(Json, KeepsTheOrderOfMembersAndRefusesWhatIsTooMuch) {
  const std::string text = R"({"b":[1,-2,2.5,true,null,"\u00e9"],"a":{}})";
  EXPECT_EQ(to_text(parse_json(text)), "{\"b\":[1,-2,2.5,true,null,\"\xc3\xa9\"],\"a\":{}}");
  EXPECT_EQ(to_text(Json("\xff")), "\"\xef\xbf\xbd\"");
  EXPECT_THROW(parse_json(text, {.text_bytes = 10}), Error);
  EXPECT_THROW(parse_json(text, {.values = 8}), Error);
  EXPECT_THROW(parse_json(text, {.depth = 1}), Error);
  EXPECT_NO_THROW(parse_json(text, {.values = 9, .depth = 2}));
  EXPECT_THROW(parse_json(std::string(1000000, '[')), Error);
  for (const char* bad : {"", "{", "1 2", "{\"a\":1,}", "nul", "\"\xff\"", "NaN"})
    EXPECT_THROW(parse_json(bad), Error) << bad;
}

}  // namespace
}  // namespace trireme
