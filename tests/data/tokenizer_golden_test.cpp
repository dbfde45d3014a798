// Texts have the tokens that the package `tokenizers` gives them: golden values of small tokenizers
// of four kinds, and of changes of them, made by tests/data/tokenizer/make_golden.
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trireme/data/tokenizer.h"

#include "runtime/core/json/json.h"
#include "runtime/data/prepare/encoder.h"
#include "tests/support/scratch_directory.h"

namespace trireme::data {
namespace {

const std::string fixtures = TRIREME_SOURCE_DIR "/tests/data/tokenizer/fixture/";

class TokenizerGolden : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return fixtures + std::string(GetParam()); }
  Json::Array cases() const {
    std::ifstream file(path() + "/cases.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return std::get<Json::Array>(parse_json(text).value);
  }
  static std::string text_of(const Json& row) {
    return std::get<std::string>(row.find("text")->value);
  }
  static std::vector<std::int32_t> tokens_of(const Json& row) {
    std::vector<std::int32_t> tokens;
    for (const Json& token : std::get<Json::Array>(row.find("tokens")->value))
      tokens.push_back(static_cast<std::int32_t>(std::get<Index>(token.value)));
    return tokens;
  }
};

TEST_P(TokenizerGolden, TextsHaveTheTokensOfThePackageTokenizers) {
  const Tokenizer tokenizer = Tokenizer::load(path());
  Tokenizer::Scratch scratch;
  const Json::Array rows = cases();
  ASSERT_GT(rows.size(), 20u);
  for (int pass = 0; pass < 2; ++pass)  // words are known in the second one
    for (const Json& row : rows) {
      std::vector<std::int32_t> tokens = {-7};
      tokenizer.encode(text_of(row), scratch, tokens);
      tokens.erase(tokens.begin());
      EXPECT_EQ(tokens, tokens_of(row)) << text_of(row);
    }
}

/// Llama 2's decoder leaves out the first space of a text.
TEST_P(TokenizerGolden, WhatFollowsAPromptKeepsItsSpaces) {
  const std::unique_ptr<TextEncoder> encoder = tokenizer_encoder(path());
  const std::string text = "The file is \xE4\xBD\xA0 here";
  std::vector<std::int32_t> all;
  encoder->worker()->encode(text, all);
  ASSERT_GT(all.size(), 4u);
  for (std::size_t first = 1; first < all.size(); ++first)
    EXPECT_EQ(encoder->decode(std::span(all).first(first)) + decode_from(first, all, *encoder),
              text)
        << first;
}

TEST_P(TokenizerGolden, DecodingGivesTheTextBack) {
  const Tokenizer tokenizer = Tokenizer::load(path());
  const std::string kind = GetParam();
  for (const Json& row : cases()) {
    const std::string text = text_of(row);
    const bool changes = kind == "qwen" || (kind == "llama2" && text.find('<') != text.npos) ||
                         (kind == "llama2" && text.find("\xE2\x96\x81") != text.npos);
    if (!changes) {
      EXPECT_EQ(tokenizer.decode(tokens_of(row)), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerGolden,
                         testing::Values("gpt2", "llama3", "qwen", "llama2"),
                         [](const auto& kind) { return std::string(kind.param); });

/// A Metaspace decoder leaves out what the pre-tokenizer has put before a text.
void expect_tokens_of_package(const std::string& golden_file) {
  const auto read = [](const std::string& path) {
    return nlohmann::json::parse(std::ifstream(fixtures + path));
  };
  const ScratchDirectory folder;
  const nlohmann::json golden = read(golden_file), &texts = golden["texts"];
  ASSERT_GT(golden["variations"].size(), 15u);
  for (const nlohmann::json& row : golden["variations"]) {
    SCOPED_TRACE(row["name"].get<std::string>());
    nlohmann::json file = read(row["kind"].get<std::string>() + "/tokenizer.json");
    file.merge_patch(row["patch"]);
    const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", file.dump()));
    Tokenizer::Scratch scratch;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::vector<std::int32_t> tokens;
      tokenizer.encode(texts[i].get<std::string>(), scratch, tokens);
      EXPECT_EQ(nlohmann::json(tokens), row["tokens"][i]) << texts[i];
      if (row.contains("decoded")) {
        EXPECT_EQ(tokenizer.decode(tokens), row["decoded"][i].get<std::string>()) << texts[i];
      }
    }
  }
}

TEST(TokenizerSteps, OfAllSortsGiveTheTokensOfThePackageTokenizers) {
  expect_tokens_of_package("steps.json");
}

/// And all steps that the package has but for some that are refused.
TEST(TokenizerSteps, OfFamiliesOfModelsGiveTheTokensOfThePackageTokenizers) {
  expect_tokens_of_package("families.json");
}

}  // namespace
}  // namespace trireme::data
