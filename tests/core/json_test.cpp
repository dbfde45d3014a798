// The JSON reader keeps the order of members and refuses texts that are too long or too deep.
#include "runtime/core/json/json.h"

#include <string>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_texts.h"
#include "tests/support/message_of.h"

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

std::vector<std::string> texts_of(const std::string& text, std::vector<std::string> names) {
  std::vector<std::string> texts;
  read_texts(text, names, texts);
  return texts;
}

TEST(ReadTexts, ReturnsTheWantedMembersOfTheOutermostObjectInTheOrderOfTheirNames) {
  const std::string text =
      "{\"a\": {\"text\": \"inner\", \"b\": [1, \"text\"]}, \"b\": \"B\", \"n\": "
      "18446744073709551615,"
      " \"x\": [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]], \"text\": \"a\\ud83d\\ude00\\n\\u0000\"}";
  EXPECT_EQ(texts_of(text, {"text", "b"}),
            (std::vector<std::string>{std::string("a\xf0\x9f\x98\x80\n\0", 7), "B"}));
}

TEST(NamesOfMembers, AreThoseOfTheOutermostObject) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of_members("{\"b\": {\"c\": [{\"d\": 1}]}, \"a\": null}"), (Names{"b", "a"}));
  for (const char* none : {"{}", "[{\"a\": 1}]", "1", "{\"a\": 1", ""})
    EXPECT_EQ(names_of_members(none), Names()) << none;
}

TEST(ReadTexts, SaysWhatIsMissingWrongOrThereTwice) {
  const auto message = [](const std::string& text) {
    return message_of([&] { texts_of(text, {"text"}); });
  };
  EXPECT_EQ(message("{\"a\": 1}"), "there is no member 'text'");
  EXPECT_EQ(message("{\"text\": 1.5}"), "member 'text' is a number, not text");
  EXPECT_EQ(message("{\"text\": {\"text\": \"a\"}}"), "member 'text' is an object, not text");
  EXPECT_EQ(message("{\"text\": \"a\", \"text\": \"b\"}"), "two members are called text");
  EXPECT_EQ(message("\"text\""), "this is text, not a JSON object");
  EXPECT_EQ(message("[{\"text\": \"a\"}]"), "this is an array, not a JSON object");
  EXPECT_EQ(message("{\"text\": \"\\ud800\"}"),
            "this is not JSON at byte 17 in member 'text': half of a surrogate pair");
  EXPECT_EQ(message("{\"text\": \"a\""),
            "this is not JSON at byte 13 in member 'text': it ends too early");
  EXPECT_EQ(message("{\"text\": \"cut"),
            "this is not JSON at byte 14 in member 'text': it ends too early");
  EXPECT_EQ(message("{\"text\": \"a\", \"b\": \"\xed\xa0\x80\"}"),
            "this is not JSON at byte 22 in member 'b': half of a surrogate pair");
  EXPECT_EQ(message("{\"text\": \"a\", \"b\": -Infinity}"),
            "this is not JSON at byte 21 in member 'b': JSON has no NaN and no Infinity");
  EXPECT_EQ(message("{\"text\": 1e400}"), "member 'text' is a number, not text");
  EXPECT_EQ(texts_of("{\"\\\"1e999\": 1e-999, \"text\": \"1e999 \\\\\", \"c\": 1e999}", {"text"}),
            std::vector<std::string>{"1e999 \\"});
  EXPECT_EQ(texts_of("{\"a\": 1e400, \"text\": \"b\", \"c\": [-2E999]}", {"text"}),
            std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace trireme
