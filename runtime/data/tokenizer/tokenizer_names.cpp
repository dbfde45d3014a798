#include "runtime/data/tokenizer/tokenizer_names.h"

#include <algorithm>
#include <array>
#include <map>

#include "trireme/core/error.h"

#include "runtime/core/json/json.h"
#include "runtime/core/json/json_record.h"
#include "runtime/core/parse_number.h"
#include "runtime/data/data_file.h"

namespace trireme::data {
namespace {

constexpr const char* special_map = "special_tokens_map.json";
constexpr const char* tokenizer_config = "tokenizer_config.json";
constexpr std::array<const char*, 2> model_configs = {"generation_config.json", "config.json"};

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

/// What a file says of one of the ends: nothing, that there is none, or the text of a token.
struct Said {
  const char* file = nullptr;  // null: nothing
  std::optional<std::string> text;
};

class EndFinder {
 public:
  EndFinder(TokenizerDefinition& definition, const std::filesystem::path& directory)
      : definition_(definition), directory_(directory) {
    for (const char* name : {special_map, tokenizer_config, model_configs[0], model_configs[1]})
      read(name);
  }

  Ends find() {
    add_tokens_of_config();
    ends_.bos =
        find_end("bos", {"<|begin_of_text|>", "<s>", "<bos>", "<|startoftext|>", "<|endoftext|>"});
    ends_.eod =
        find_end("eos", {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eot_id|>"});
    find_stops();
    return std::move(ends_);
  }

 private:
  std::string path(const char* file) const { return (directory_ / file).string(); }
  template <class... Parts>
  void warn(const Parts&... parts) {
    ends_.warnings.push_back(str(parts...));
  }

  void read(const char* name) {
    std::error_code unknown;
    if (!std::filesystem::exists(path(name), unknown)) return;
    const DataFile data(path(name));
    constexpr Index most = 16 << 20;
    require(data.bytes() <= most, path(name), ": has ", data.bytes(), " bytes, more than ", most);
    std::string text(static_cast<std::size_t>(data.bytes()), '\0');
    data.read(0, text.data(), data.bytes());
    try {
      files_.emplace(name, parse_json(text));
    } catch (const Error& error) {
      throw Error(str(path(name), ": ", error.what()));
    }
  }
  const Json* member(const char* file, const std::string& key) const {
    const auto found = files_.find(file);
    return found == files_.end() ? nullptr : found->second.find(key);
  }

  /// The number that the package `tokenizers` would give it.
  Token add(AddedToken token) {
    std::vector<AddedToken>& added = definition_.added;
    const auto size = static_cast<Token>(definition_.vocabulary.size());
    token.id = added.empty() ? size : std::max(size, added.back().id + 1);
    added.push_back(token);
    return token.id;
  }

  /// Those of added_tokens_decoder that the tokenizer lacks, by their numbers there.
  void add_tokens_of_config() {
    const Json* decoder = member(tokenizer_config, "added_tokens_decoder");
    const auto* members = decoder ? std::get_if<Json::Object>(&decoder->value) : nullptr;
    if (members == nullptr) return;
    std::map<Index, const Json*> tokens;
    for (const auto& [number, token] : *members)
      if (const auto id = parse_number<Index>(number)) tokens[*id] = &token;
    for (const auto& [id, json] : tokens) {
      Problems ignored;
      JsonReader keys(*json, "", ignored);
      const std::string content = keys.get_or<std::string>("content", "");
      if (content.empty() || find_token(definition_, content)) continue;
      const bool special = keys.get_or("special", false);
      const Token given = add({0, content, keys.get_or("lstrip", false),
                               keys.get_or("rstrip", false), keys.get_or("normalized", !special)});
      warn(path(tokenizer_config), ": has the token \"", content,
           "\", which tokenizer.json lacks; ", "it is added as token ", given,
           ", as transformers does",
           given == id ? std::string() : str(", though it is ", id, " there"));
    }
  }

  Said said_by(const char* file, const std::string& key) const {
    const Json* json = member(file, key);
    if (json == nullptr) return {};
    if (std::holds_alternative<std::nullptr_t>(json->value)) return {file, std::nullopt};
    const Json* content = json->find("content");
    const auto* text = std::get_if<std::string>(&(content ? content : json)->value);
    require(text != nullptr, path(file), ": ", key, " is ", shown(*json),
            "; expected a token or null");
    return {file, *text};
  }

  std::optional<Token> find_end(const std::string& end, std::initializer_list<const char*> names) {
    const std::string key = end + "_token";
    const bool by_map = member(tokenizer_config, "added_tokens_decoder") == nullptr;
    Said map = said_by(special_map, key), config = said_by(tokenizer_config, key);
    if (map.file && config.file && map.text != config.text)
      warn(path(special_map), " has ", map.text.value_or("null"), " as ", key, ", and ",
           tokenizer_config, " ", config.text.value_or("null"), "; ", by_map ? "the first" : "that",
           " counts, as in transformers");
    const Said& said = by_map && map.file ? map : config;
    if (said.file) return said.text ? token_of(said, key) : std::nullopt;
    for (const char* file : model_configs)
      if (const std::vector<Token> numbers = numbers_of(file, key + "_id"); !numbers.empty()) {
        if (has_token(definition_, numbers.front())) return numbers.front();
        warn(path(file), ": ", key, "_id is ", numbers.front(), ", which the tokenizer lacks");
      }
    for (const char* name : names)
      if (const auto token = find_token(definition_, name)) return token;
    return std::nullopt;
  }
  std::optional<Token> token_of(const Said& said, const std::string& key) {
    if (const auto token = find_token(definition_, *said.text)) return token;
    const Token given = add({0, *said.text, false, false, false});
    warn(path(said.file), ": ", key, " is \"", *said.text, "\", which tokenizer.json lacks; it is ",
         "added as token ", given, ", as transformers does");
    return given;
  }

  /// A number, or a list of them; none where there is none.
  std::vector<Token> numbers_of(const char* file, const std::string& key) const {
    const Json* json = member(file, key);
    if (json == nullptr || std::holds_alternative<std::nullptr_t>(json->value)) return {};
    std::vector<Token> numbers;
    const auto add = [&](const Json& value) {
      const auto* number = std::get_if<Index>(&value.value);
      require(number && *number >= -1 && *number < token_limit, path(file), ": ", key, " is ",
              shown(*json), "; expected a token's number, a list of them, or null");
      if (*number >= 0) numbers.push_back(static_cast<Token>(*number));
    };
    if (const auto* list = std::get_if<Json::Array>(&json->value))
      for (const Json& value : *list) add(value);
    else
      add(*json);
    return numbers;
  }

  void find_stops() {
    for (const char* file : model_configs) {
      ends_.stops = numbers_of(file, "eos_token_id");
      if (ends_.stops.empty()) continue;
      if (ends_.eod && std::count(ends_.stops.begin(), ends_.stops.end(), *ends_.eod) == 0)
        warn(path(file), ": eos_token_id is ", shown(*member(file, "eos_token_id")),
             ", where generated text ends, as in transformers; documents end with token ",
             *ends_.eod, ", eos_token of the tokenizer");
      return;
    }
    if (ends_.eod) ends_.stops = {*ends_.eod};
  }

  TokenizerDefinition& definition_;
  const std::filesystem::path& directory_;
  std::map<std::string, Json, std::less<>> files_;
  Ends ends_;
};

}  // namespace

Ends find_ends(TokenizerDefinition& definition, const std::filesystem::path& directory) {
  return EndFinder(definition, directory).find();
}

}  // namespace trireme::data
