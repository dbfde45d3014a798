#include "runtime/data/tokenizer/tokenizer_names.h"

#include <algorithm>
#include <array>
#include <string>

#include "trireme/core/error.h"

#include "runtime/core/json.h"
#include "runtime/core/json/json_keys.h"
#include "runtime/data/data_file.h"

namespace trireme::data {
namespace {

/// What a file says of one of the ends: nothing, that there is none, or a token.
struct Said {
  bool anything = false;
  std::optional<Token> token;
};

std::optional<Token> find_token(const TokenizerDefinition& definition, const std::string& text) {
  for (const AddedToken& added : definition.added)
    if (added.content == text) return added.id;
  for (const auto& [token, name] : definition.vocabulary)
    if (name == text) return token;
  return std::nullopt;
}

bool has_token(const TokenizerDefinition& definition, Index token) {
  const auto is_it = [&](const auto& entry) { return entry.first == token; };
  return std::any_of(definition.vocabulary.begin(), definition.vocabulary.end(), is_it) ||
         std::any_of(definition.added.begin(), definition.added.end(),
                     [&](const AddedToken& added) { return added.id == token; });
}

/// A text, or an object with one as `content`, or a number, or a list whose first value is one.
Said read_end(const Json& file, const char* key, const TokenizerDefinition& definition) {
  const Json* json = file.find(key);
  if (json == nullptr) return {};
  if (std::holds_alternative<std::nullptr_t>(json->value)) return {true, std::nullopt};
  const Json* value = json;
  if (const Json* content = json->find("content")) value = content;
  if (const auto* list = std::get_if<Json::Array>(&json->value); list && !list->empty())
    value = &list->front();
  if (const auto* text = std::get_if<std::string>(&value->value)) {
    const std::optional<Token> token = find_token(definition, *text);
    require(token.has_value(), key, " is ", shown(*json), ", which the tokenizer lacks");
    return {true, token};
  }
  const auto* number = std::get_if<Index>(&value->value);
  require(number != nullptr, key, " is ", shown(*json), "; expected a token or null");
  require(has_token(definition, *number), key, " is ", *number, ", which the tokenizer lacks");
  return {true, static_cast<Token>(*number)};
}

struct File {
  const char *name, *bos, *eod;
};
constexpr std::array<File, 2> files = {{{"tokenizer_config.json", "bos_token", "eos_token"},
                                        {"config.json", "bos_token_id", "eos_token_id"}}};

void read_file(const std::string& path, const File& file, const TokenizerDefinition& definition,
               Said& bos, Said& eod) {
  const DataFile data(path);
  constexpr Index most = 16 << 20;
  require(data.bytes() <= most, path, ": has ", data.bytes(), " bytes, more than ", most);
  std::string text(static_cast<std::size_t>(data.bytes()), '\0');
  data.read(0, text.data(), data.bytes());
  try {
    const Json json = parse_json(text);
    if (!bos.anything) bos = read_end(json, file.bos, definition);
    if (!eod.anything) eod = read_end(json, file.eod, definition);
  } catch (const Error& error) {
    throw Error(str(path, ": ", error.what()));
  }
}

Said usual(const TokenizerDefinition& definition, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto token = find_token(definition, name)) return {true, token};
  return {};
}

}  // namespace

Ends find_ends(const TokenizerDefinition& definition, const std::filesystem::path& directory) {
  Said bos, eod;
  for (const File& file : files)
    if (const auto path = directory / file.name; std::filesystem::exists(path))
      read_file(path.string(), file, definition, bos, eod);
  if (!bos.anything)
    bos = usual(definition,
                {"<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>", "<|endoftext|>"});
  if (!eod.anything)
    eod = usual(definition, {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eot_id|>"});
  return {bos.token, eod.token};
}

}  // namespace trireme::data
