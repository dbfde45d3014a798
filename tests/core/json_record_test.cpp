// Records: written and read back they are equal; what does not fit is named with its place.
#include "runtime/core/json/json_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

enum class Color { red, green };
const char* name(Color color) { return color == Color::red ? "red" : "green"; }
constexpr Color colors[] = {Color::red, Color::green};

struct Wheel {
  Index inches = 26;
  double bar = 2.5;
  bool operator==(const Wheel&) const = default;
};
void describe(RecordOf<Wheel> auto& wheel, auto& member) {
  member("inches", within(wheel.inches, 1, 40));
  member.optional("bar", wheel.bar);
}

struct Bicycle {
  std::string owner = "unknown";
  int gears = 1;
  bool bell = false;
  Color color = Color::red;
  std::optional<Index> price;
  std::vector<Wheel> wheels;
  std::vector<std::string> words;
  KeyValues facts;
  std::map<std::string, double> figures;
  Index stolen = -1;
  bool operator==(const Bicycle&) const = default;
};
void describe(RecordOf<Bicycle> auto& bicycle, auto& member) {
  member.constant("format", 3);
  member("owner", bicycle.owner);
  member("gears", within(bicycle.gears, 1, 30));
  member("bell", bicycle.bell);
  member("color", named(bicycle.color, colors, "red or green"));
  member("price", bicycle.price);
  member("wheels", bicycle.wheels);
  member("words", bicycle.words);
  member("facts", bicycle.facts);
  member("figures", bicycle.figures);
  member.when(bicycle.stolen >= 0, "stolen", bicycle.stolen);
}

Bicycle sample() {
  return {"Ada",
          21,
          true,
          Color::green,
          900,
          {{28, 3.5}, {26, 1}},
          {"a", "\"b\"\n"},
          {{"z", "last"}, {"a", "first"}},
          {{"kg", 12.25}},
          7};
}

const std::string text =
    R"({"format":3,"owner":"Ada","gears":21,"bell":true,"color":"green","price":900,)"
    R"("wheels":[{"inches":28,"bar":3.5},{"inches":26,"bar":1.0}],"words":["a","\"b\"\n"],)"
    R"("facts":{"z":"last","a":"first"},"figures":{"kg":12.25},"stolen":7})";

TEST(JsonRecord, IsWrittenInTheOrderOfItsDescriptionAndReadBack) {
  EXPECT_EQ(to_text(to_json(sample())), text);
  EXPECT_EQ(from_json<Bicycle>(parse_json(text)), sample());
}

TEST(JsonRecord, LeavesOutWhatIsNotThere) {
  const std::string bare = to_text(to_json(Bicycle{}));
  EXPECT_THAT(bare, testing::HasSubstr("\"price\":null"));
  EXPECT_THAT(bare, testing::Not(testing::HasSubstr("stolen")));
  EXPECT_EQ(from_json<Bicycle>(parse_json(bare)), Bicycle{});
}

/// The text with `from` replaced, as a file of bicycles.
std::string refusal(const std::string& from, const std::string& to) {
  std::string changed = text;
  EXPECT_NE(changed.find(from), std::string::npos) << from;
  changed.replace(changed.find(from), from.size(), to);
  try {
    from_json<Bicycle>(parse_json(changed), "bikes");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(JsonRecord, NamesThePlaceTheValueAndWhatWouldBeRight) {
  const struct {
    const char *from, *to, *says;
  } cases[] = {
      {"\"format\":3", "\"format\":4", "format is 4, but this version of trireme reads 3"},
      {"\"owner\":\"Ada\",", "", "owner is missing; expected a text"},
      {"\"Ada\"", "null", "owner is null; expected a text"},
      {":21", ":31", "gears is 31; expected a whole number from 1 to 30"},
      {":21", ":2.5", "gears is 2.5; expected a whole number from 1 to 30"},
      {":21", ":99999999999", "gears is 99999999999; expected a whole number from 1 to 30"},
      {":true", ":1", "bell is 1; expected true or false"},
      {"\"green\"", "\"blue\"", "color is \"blue\"; expected red or green"},
      {"\"green\"", "2", "color is 2; expected a text"},
      {":900", ":\"cheap\"", "price is \"cheap\"; expected a whole number"},
      {":26", ":0", "wheels[1].inches is 0; expected a whole number from 1 to 40"},
      {"{\"inches\":28,\"bar\":3.5}", "7", "wheels[0] is 7; expected an object"},
      {"\"a\",", "1,", "words[0] is 1; expected a text"},
      {"\"first\"", "true", "facts.a is true; expected a text"},
      {"12.25", "\"heavy\"", "figures.kg is \"heavy\"; expected a number"},
      {":7}", ":\"x\"}", "stolen is \"x\"; expected a whole number"},
  };
  for (const auto& [from, to, says] : cases) EXPECT_EQ(refusal(from, to), str("bikes: ", says));
  EXPECT_EQ(refusal(":21", ":21.0"), "");
  EXPECT_EQ(refusal(",\"bar\":1.0", ""), "");
  EXPECT_EQ(refusal("\"price\":900,", ""), "");
}

TEST(JsonReader, ListsAllProblemsAndLeavesTheirTargetsUnchanged) {
  Bicycle bicycle = sample();
  std::vector<std::string> problems;
  const Json json =
      parse_json(R"({"format":3,"owner":1,"gears":0,"bell":false,"more":[],"\u001b":0})");
  JsonReader reader(json, "", problems);
  reader("owner", bicycle.owner);
  reader("gears", within(bicycle.gears, 1, 30));
  reader("bell", bicycle.bell);
  reader("wheels", bicycle.wheels);
  EXPECT_EQ(bicycle.owner, "Ada");
  EXPECT_EQ(bicycle.gears, 21);
  EXPECT_FALSE(bicycle.bell);
  EXPECT_THAT(problems, ElementsAre("owner is 1; expected a text",
                                    "gears is 0; expected a whole number from 1 to 30",
                                    "wheels is missing; expected a list"));
  EXPECT_THAT(reader.unread(), ElementsAre("format", "more", R"("\u001b")"));
}

TEST(JsonReader, ReadsByHand) {
  const Json json = parse_json(R"({"rope":{"factor":4,"deep":[{"x":1},{"x":-2}]},"none":null})");
  std::vector<std::string> problems;
  JsonReader reader(json, "config.json", problems);
  EXPECT_EQ(reader.get_or("none", 1.5), 1.5);
  EXPECT_EQ(reader.get<Index>("layers", 1, 9), 1);
  std::vector<Index> seen;
  reader.inside("rope", [&](JsonReader& rope) {
    EXPECT_EQ(rope.get<double>("factor"), 4);
    rope.each("deep", [&](JsonReader& deep) { seen.push_back(deep.get<Index>("x", 0, 9)); });
    rope.problem("factor is odd");
  });
  EXPECT_THAT(seen, ElementsAre(1, 0));
  EXPECT_THAT(problems,
              ElementsAre("config.json: layers is missing; expected a whole number from 1 to 9",
                          "config.json: rope.deep[1].x is -2; expected a whole number from 0 to 9",
                          "config.json: rope.factor is odd"));
}

TEST(JsonReader, KeepsNoMoreProblemsThanAPersonCouldRead) {
  Json::Array many(5000, Json("x"));
  const Json json = Json::Object{{"all", std::move(many)}};
  std::vector<std::string> problems;
  std::vector<Index> numbers;
  JsonReader(json, "", problems)("all", numbers);
  EXPECT_EQ(problems.size(), 1000u);
  EXPECT_THAT(numbers, IsEmpty());
}

TEST(JsonRecord, LinesThatAreNoneAreLeftOut) {
  const std::string lines = R"({"inches":20}
not JSON
{"inches":99}

{"inches":21}
{"inches":2)";
  EXPECT_THAT(records_in<Wheel>(lines), ElementsAre(Wheel{20}, Wheel{21}));
}

}  // namespace
}  // namespace trireme
