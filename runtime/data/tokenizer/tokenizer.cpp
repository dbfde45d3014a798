#include "trireme/data/tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/function_ref.h"

#include "runtime/core/files/other_files.h"
#include "runtime/core/json/json.h"
#include "runtime/core/json/json_record.h"
#include "runtime/core/parse_number.h"
#include "runtime/data/data_file.h"
#include "runtime/data/tokenizer/bpe.h"
#include "runtime/data/tokenizer/normalizer.h"
#include "runtime/data/tokenizer/pretokenizer.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

/// The tokens at the beginning of a text and at the end of a document, and those where generated
/// text ends, as files beside a tokenizer.json say.
struct Ends {
  std::optional<Token> bos, eod;
  std::vector<Token> stops;
  std::vector<std::string> warnings;  // where files disagree, a sentence each
};

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
      std::vector<std::string> ignored;
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

/// As transformers: bos and eod are those of special_tokens_map.json (where tokenizer_config.json
/// has no added_tokens_decoder) or tokenizer_config.json; a token that only these have is added to
/// `definition`. Where they say nothing, those of generation_config.json or config.json, else of
/// the usual names. Stops are those of generation_config.json or config.json, else eod. Throws:
/// Error that names a file which is broken.
Ends find_ends(TokenizerDefinition& definition, const std::filesystem::path& directory) {
  return EndFinder(definition, directory).find();
}

/// AddedTokens: finds added tokens in text, before anything else is done with it.
class AddedTokens {
 public:
  struct Entry {
    std::string text;  // what is searched for, not empty
    Token token;
    bool left_strip, right_strip;
  };
  /// Of entries with the same text the first is found.
  explicit AddedTokens(std::vector<Entry> entries);

  /// Calls `between` for each text between added tokens, and `found` for these, in order. Of those
  /// that begin at one place the longest is found.
  void split(std::string_view text, FunctionRef<void(std::string_view)> between,
             FunctionRef<void(Token)> found) const;

 private:
  /// Where the next one begins, from `at` on, and which it is.
  const Entry* find(std::string_view text, std::size_t& at) const;
  const Entry* longest_at(std::string_view text) const;

  std::vector<Entry> entries_;        // sorted by text
  std::array<bool, 256> first_ = {};  // bytes that begin one
  char only_first_ = '\0';            // the only one of these, where there is only one
  bool one_first_ = false;
};

AddedTokens::AddedTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  for (const Entry& entry : entries_) first_[static_cast<unsigned char>(entry.text[0])] = true;
  one_first_ = std::count(first_.begin(), first_.end(), true) == 1;
  if (one_first_) only_first_ = entries_.front().text[0];
}

const AddedTokens::Entry* AddedTokens::longest_at(std::string_view text) const {
  const Entry* longest = nullptr;
  auto first = entries_.begin(), last = entries_.end();  // those that agree so far
  for (std::size_t i = 0; i < text.size() && first != last; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto at = [i](const Entry& entry) {
      return i < entry.text.size() ? static_cast<unsigned char>(entry.text[i]) : -1;
    };
    first = std::partition_point(first, last, [&](const Entry& entry) { return at(entry) < byte; });
    last = std::partition_point(first, last, [&](const Entry& entry) { return at(entry) <= byte; });
    if (first != last && first->text.size() == i + 1) longest = &*first;
  }
  return longest;
}

const AddedTokens::Entry* AddedTokens::find(std::string_view text, std::size_t& at) const {
  for (; at < text.size(); ++at) {
    if (one_first_) {
      at = text.find(only_first_, at);
      if (at == text.npos) break;
    } else if (!first_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    if (const Entry* entry = longest_at(text.substr(at))) return entry;
  }
  return nullptr;
}

void AddedTokens::split(std::string_view text, FunctionRef<void(std::string_view)> between,
                        FunctionRef<void(Token)> found) const {
  std::size_t done = 0;
  if (!entries_.empty()) {
    std::size_t at = 0;
    while (const Entry* entry = find(text, at)) {
      std::size_t begin = at, end = at += entry->text.size();
      if (entry->left_strip && done < begin)
        begin -= trailing_white_space(text.substr(done, begin - done));
      if (entry->right_strip) end += leading_white_space(text.substr(end));
      if (done < begin) between(text.substr(done, begin - done));
      found(entry->token);
      done = end;
    }
  }
  if (done < text.size()) between(text.substr(done));
}

/// Bytes of all tokens, one after the other.
class TokenTexts {
 public:
  TokenTexts(const TokenizerDefinition& definition) : definition_(&definition) {
    for (const auto& [token, text] : definition.vocabulary) place(token, bytes_of(text));
    for (const AddedToken& added : definition.added) place(added.id, added.content);
    definition_ = nullptr;
  }
  std::size_t size() const { return places_.size(); }
  bool has(Token token) const {
    return token >= 0 && static_cast<std::size_t>(token) < size() &&
           places_[static_cast<std::size_t>(token)].bytes >= 0;
  }
  std::string_view text(Token token) const {
    const Place& place = places_[static_cast<std::size_t>(token)];
    return std::string_view(texts_).substr(place.begin, static_cast<std::size_t>(place.bytes));
  }

 private:
  static constexpr std::size_t most_bytes = 1 << 20;  // of a token, where the decoder changes it
  struct Place {
    std::size_t begin = 0;
    Index bytes = -1;  // -1: there is no such token
  };
  void place(Token token, const std::string& text) {
    const auto at = static_cast<std::size_t>(token);
    if (at >= places_.size()) places_.resize(at + 1);
    places_[at] = {texts_.size(), static_cast<Index>(text.size())};
    texts_ += text;
  }
  std::string bytes_of(std::string text) const {
    if (std::string bytes; definition_->decoder.byte_level)
      return bytes_of_alphabet(text, bytes) ? bytes : text;
    if (text.size() == 6 && text.starts_with("<0x"))
      for (int byte = 0; byte < 256; ++byte)
        if (name_of_byte(static_cast<unsigned char>(byte)) == text)
          return std::string(1, static_cast<char>(byte));
    for (const auto& [pattern, content] : definition_->decoder.replace) {
      std::string replaced;
      replace_all(text, pattern, content, most_bytes, replaced);
      text = std::move(replaced);
    }
    return text;
  }

  const TokenizerDefinition* definition_;  // while it is made
  std::string texts_;
  std::vector<Place> places_;
};

/// Those that are searched for in the text as it is, or in normalized text.
AddedTokens added_tokens(const TokenizerDefinition& definition, const Normalizer& normalizer,
                         bool normalized) {
  std::vector<AddedTokens::Entry> entries;
  Normalizer::Memory memory = normalizer.make_memory();
  for (const AddedToken& added : definition.added) {
    if (added.normalized != normalized) continue;
    const std::string text(normalized ? normalizer.apply(added.content, memory) : added.content);
    if (!text.empty()) entries.push_back({text, added.id, added.left_strip, added.right_strip});
  }
  return AddedTokens(std::move(entries));
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(const TokenizerDefinition& definition, Ends found)
      : normalizer(definition.normalizer),
        bpe(definition),
        pretokenizer(definition.pretokenizer, bpe.marks_begin_words()),
        added(added_tokens(definition, normalizer, false)),
        added_normalized(added_tokens(definition, normalizer, true)),
        texts(definition),
        strip_spaces(definition.decoder.strip_spaces),
        ends(std::move(found)),
        hash(hash_of(definition)) {}

  Normalizer normalizer;
  Bpe bpe;
  Pretokenizer pretokenizer;
  AddedTokens added, added_normalized;
  TokenTexts texts;
  Index strip_spaces;
  Ends ends;
  std::string hash;
};

struct Tokenizer::Scratch::State {
  std::shared_ptr<const Parts> parts;  // of the tokenizer that the rest belongs to
  WordCache cache;
  Pretokenizer::Memory pretokenizer;
  Normalizer::Memory normalizer;
  Bpe::Memory bpe;
};

Tokenizer::Scratch::Scratch() : state_(new State) {}
Tokenizer::Scratch::Scratch(Scratch&& other) noexcept = default;
Tokenizer::Scratch& Tokenizer::Scratch::operator=(Scratch&& other) noexcept = default;
Tokenizer::Scratch::~Scratch() = default;
void Tokenizer::Scratch::while_encoding(std::function<void()> f) {
  state_->bpe.while_encoding = std::move(f);
}

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&& other) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&& other) noexcept = default;
Tokenizer::~Tokenizer() = default;

/// What is beside the place of a tokenizer.json, as a clause.
static std::string instead_of_file(const std::filesystem::path& file) {
  const std::string directory = file.parent_path().string();
  std::error_code unknown;
  const std::string asked = directory.empty() ? "." : directory;
  const std::string other = instead_of(
      FilesOf::tokenizer, std::filesystem::is_directory(asked, unknown) ? asked : file.string());
  return other.empty() ? "" : "; " + other;
}

/// The first bytes; none where it cannot be read.
static std::string beginning_of(const std::string& file) {
  std::string begin(64, '\0');
  std::error_code unknown;
  std::ifstream in;
  if (std::filesystem::is_regular_file(file, unknown)) in.open(file, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  return begin;
}

/// What has another name may be a tokenizer.json too; if it is none, its name or its beginning says
/// what it is.
static TokenizerDefinition read_file(const std::string& file) {
  try {
    return read_tokenizer(file);
  } catch (const Error&) {
    if (const std::string what = what_begins_so(beginning_of(file)); !what.empty())
      throw Error(str(file, ": ", what));
    const std::string other = what_is_named_so(FilesOf::tokenizer, file);
    if (other.empty()) throw;
    throw Error(str(file, ": this is ", other));
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::error_code ignored, unknown;  // unknown: why opening it will fail as well
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path file = is_directory ? path / "tokenizer.json" : path;
  require(std::filesystem::exists(file, unknown) || unknown, file.string(),
          ": there is no such file", instead_of_file(file));
  TokenizerDefinition definition = read_file(file.string());
  Ends ends = find_ends(definition, file.parent_path());
  return Tokenizer(std::make_shared<const Parts>(definition, std::move(ends)));
}

namespace {

/// Appends the tokens of pieces.
class Encoder {
 public:
  Encoder(const Bpe& bpe, WordCache& cache, Bpe::Memory& memory, std::vector<Token>& tokens)
      : bpe_(bpe), cache_(cache), memory_(memory), tokens_(tokens) {}

  void add(Token token) {
    if (count_ + WordCache::most_tokens > pending_.size()) flush();
    pending_[count_++] = token;
  }
  void add(std::string_view piece, const char* readable_end) {
    if (piece.size() > WordCache::longest_word) return add_tokens(bpe_.encode(piece, memory_));
    const WordCache::Key key = WordCache::key_of(piece, readable_end);
    WordCache::Entry& entry = cache_.entry(key);
    if (!(entry.key == key)) {
      const std::vector<Token>& found = bpe_.encode(piece, memory_);
      if (found.size() > WordCache::most_tokens) return add_tokens(found);
      entry.key = key;
      entry.count = static_cast<std::int32_t>(found.size());
      std::copy(found.begin(), found.end(), entry.tokens.begin());
    }
    if (count_ + WordCache::most_tokens > pending_.size()) flush();
    std::memcpy(&pending_[count_], entry.tokens.data(), sizeof entry.tokens);
    count_ += static_cast<std::size_t>(entry.count);
  }

  /// To be called at the end.
  void flush() {
    tokens_.insert(tokens_.end(), pending_.begin(),
                   pending_.begin() + static_cast<std::ptrdiff_t>(count_));
    count_ = 0;
    if (++flushes_ % flushes_between_pauses == 0) memory_.pause();
  }

 private:
  static constexpr std::size_t flushes_between_pauses = 256;  // about a MiB of text
  void add_tokens(const std::vector<Token>& found) {
    flush();
    tokens_.insert(tokens_.end(), found.begin(), found.end());
  }

  const Bpe& bpe_;
  WordCache& cache_;
  Bpe::Memory& memory_;
  std::vector<Token>& tokens_;
  std::array<Token, 1024> pending_;
  std::size_t count_ = 0, flushes_ = 0;
};

}  // namespace

void Tokenizer::encode(std::string_view text, Scratch& scratch,
                       std::vector<std::int32_t>& tokens) const {
  const std::size_t invalid = first_invalid(text);
  require(invalid == text.size(), "byte ", invalid, " of the text is not UTF-8");
  Scratch::State& state = *scratch.state_;
  if (state.parts != parts_) {
    state.cache.clear();
    state.pretokenizer = parts_->pretokenizer.make_memory();
    state.normalizer = parts_->normalizer.make_memory();
    state.parts = parts_;
  }
  const std::size_t before = tokens.size();
  try {
    Encoder encoder(parts_->bpe, state.cache, state.bpe, tokens);
    const auto take = [&](std::string_view piece, const char* end) { encoder.add(piece, end); };
    const auto add = [&](Token token) { encoder.add(token); };
    const auto cut = [&](std::string_view piece, bool first) {
      const std::string_view normal = parts_->normalizer.apply(piece, state.normalizer);
      const char* const begin = state.normalizer.left_out_beginning ? nullptr : normal.data();
      parts_->added_normalized.split(
          normal,
          [&](std::string_view part) {
            parts_->pretokenizer.cut(part, first && part.data() == begin, state.pretokenizer, take);
          },
          add);
    };
    parts_->added.split(
        text, [&](std::string_view piece) { cut(piece, piece.data() == text.data()); }, add);
    encoder.flush();
  } catch (...) {
    tokens.resize(before);
    throw;
  }
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  for (const Token token : tokens)
    require(parts_->texts.has(token), "the vocabulary has no token ", token);
  return decode_or(tokens, "");
}

std::string Tokenizer::decode_or(std::span<const std::int32_t> tokens,
                                 std::string_view unknown) const {
  std::string text;
  for (const Token token : tokens)
    text += parts_->texts.has(token) ? parts_->texts.text(token) : unknown;
  Index strip = 0;
  while (strip < parts_->strip_spaces && static_cast<std::size_t>(strip) < text.size() &&
         text[static_cast<std::size_t>(strip)] == ' ')
    ++strip;
  return text.substr(static_cast<std::size_t>(strip));
}

std::int64_t Tokenizer::vocabulary() const {
  return static_cast<std::int64_t>(parts_->texts.size());
}
std::optional<std::int32_t> Tokenizer::bos() const { return parts_->ends.bos; }
std::optional<std::int32_t> Tokenizer::eod() const { return parts_->ends.eod; }
std::vector<std::int32_t> Tokenizer::stops() const { return parts_->ends.stops; }
std::vector<std::string> Tokenizer::warnings() const { return parts_->ends.warnings; }
std::string Tokenizer::hash() const { return parts_->hash; }

}  // namespace trireme::data
