// Reads a tokenizer.json, which may be anything: what a TokenizerDefinition holds fits together.
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trireme/core/error.h"

#include "runtime/core/json/json.h"
#include "runtime/core/json/json_record.h"
#include "runtime/data/data_file.h"
#include "runtime/data/tokenizer/pretokenizer_pattern.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

// The normalizer, pre-tokenizer and decoder of a tokenizer.json as steps. What is not understood
// becomes a problem.

using Problems = std::vector<std::string>;

/// More than any tokenizer has; each costs a call in a call.
constexpr std::size_t most_steps = 32;

bool is_null(const Json& json) { return std::holds_alternative<std::nullptr_t>(json.value); }

/// Reads the parts of one type.
template <class Steps>
struct PartType {
  const char* name;
  void (*read)(JsonReader& keys, Steps& steps);
};

template <class Types>
std::string names_of(const Types& types) {
  std::string names;
  for (const auto& type : types) names += str(type.name, ", ");
  return names + "Sequence";
}

void refuse_unread(JsonReader& keys) {
  for (const std::string& key : keys.unread()) keys.problem(key, " is not understood");
}

/// Reads a part, or in order all parts of a Sequence, whose key is `list`. `count` is the number of
/// parts so far; those behind most_steps are not read.
template <class Steps, std::size_t Count>
void read_parts(JsonReader& keys, const char* list, const std::array<PartType<Steps>, Count>& types,
                Steps& steps, std::size_t& count) {
  if (is_null(keys.json())) return;
  const auto type = keys.get_or<std::string>("type", "");
  if (type == "Sequence") {
    if (!keys.has(list)) return keys.problem(list, " is missing; expected a list");
    keys.each(list, [&](JsonReader& part) { read_parts(part, list, types, steps, count); });
  } else if (++count <= most_steps) {
    const auto found =
        std::find_if(types.begin(), types.end(), [&](const auto& one) { return type == one.name; });
    if (found == types.end())
      return keys.problem("type is \"", type, "\"; understood are ", names_of(types));
    found->read(keys, steps);
  } else {
    return;
  }
  refuse_unread(keys);
}

/// Reads the member `part` of a tokenizer.json, which may be null or absent.
template <class Steps, std::size_t Count>
void read_part(JsonReader& file, const char* part, const char* list,
               const std::array<PartType<Steps>, Count>& types, Steps& steps, Problems& problems) {
  file.inside(part, [&](JsonReader& keys) {
    std::size_t count = 0;
    read_parts(keys, list, types, steps, count);
    if (count > most_steps)  // first of all: steps that are not read have keys that are not
      problems.insert(problems.begin(),
                      str(part, " has ", count, " steps; understood are ", most_steps));
  });
}

struct Sought {
  std::string text;
  bool is_regex = false;
};

Sought read_pattern(JsonReader& keys) {
  const Json* json = keys.find("pattern");
  for (const char* kind : {"String", "Regex"}) {
    const Json* member = json ? json->find(kind) : nullptr;
    const auto* text = member ? std::get_if<std::string>(&member->value) : nullptr;
    if (text && !text->empty()) return {*text, std::string(kind) == "Regex"};
  }
  keys.problem("pattern is ", json ? shown(*json) : "missing",
               "; expected {\"String\": TEXT} or {\"Regex\": TEXT}");
  return {"-", false};
}

std::string read_string(JsonReader& keys) {
  const Sought pattern = read_pattern(keys);
  if (pattern.is_regex) keys.problem("pattern is a Regex; understood is a String");
  return pattern.text;
}

using NormalizerSteps = std::vector<NormalizerStep>;
using PretokenizerSteps = std::vector<PretokenizerStep>;
using Behavior = PretokenizerStep::Behavior;

bool can_be_used(const std::string& pattern, JsonReader& keys) {
  try {
    const Pattern compiled(pattern);
    return true;
  } catch (const Error& error) {
    keys.problem("pattern \"", pattern, "\": ", error.what());
    return false;
  }
}

void add_split(const std::string& pattern, JsonReader& keys, PretokenizerSteps& steps,
               Behavior behavior = Behavior::isolated, bool invert = false) {
  if (can_be_used(pattern, keys))
    steps.push_back({PretokenizerStep::Kind::split, pattern, behavior, invert});
}

Behavior read_behavior(JsonReader& keys, const char* absent) {
  constexpr std::array<const char*, 5> names = {"Isolated", "Removed", "MergedWithPrevious",
                                                "MergedWithNext", "Contiguous"};  // as the enum
  const std::string name = keys.get_or<std::string>("behavior", absent);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<Behavior>(found - names.begin());
  keys.problem("behavior is \"", name, "\"; understood are Isolated, Removed, MergedWithPrevious, ",
               "MergedWithNext, Contiguous");
  return Behavior::isolated;
}

void read_split(JsonReader& keys, PretokenizerSteps& steps) {
  const Sought pattern = read_pattern(keys);
  const Behavior behavior = read_behavior(keys, "");
  const bool invert = keys.get_or("invert", false);
  add_split(pattern.is_regex ? pattern.text : escaped_pattern(pattern.text), keys, steps, behavior,
            invert);
}

void read_byte_level(JsonReader& keys, PretokenizerSteps& steps) {
  keys.get_or("trim_offsets", true);  // of offsets, not of tokens
  if (keys.get_or("add_prefix_space", true))
    steps.push_back({PretokenizerStep::Kind::prepend, " "});
  if (keys.get_or("use_regex", true)) add_split(gpt2_pattern, keys, steps);
  steps.push_back({PretokenizerStep::Kind::alphabet, ""});
}

void read_digits(JsonReader& keys, PretokenizerSteps& steps) {
  add_split(keys.get_or("individual_digits", false) ? "\\p{N}" : "\\p{N}+", keys, steps);
}

void read_punctuation(JsonReader& keys, PretokenizerSteps& steps) {
  add_split(class_pattern(punctuation_characters()), keys, steps, read_behavior(keys, "Isolated"));
}

/// Its words also have what joins letters without a mark, and no numerals but digits.
void read_whitespace(JsonReader& keys, PretokenizerSteps& steps) {
  const std::string word = R"(\w\x{200C}\x{200D}&&[^\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE}])";
  add_split(str("[", word, "]+|[^\\s[", word, "]]+"), keys, steps, Behavior::removed, true);
}

void read_whitespace_split(JsonReader& keys, PretokenizerSteps& steps) {
  add_split("\\s", keys, steps, Behavior::removed);
}

void read_bert(JsonReader& keys, PretokenizerSteps& steps) {
  read_whitespace_split(keys, steps);
  add_split(class_pattern(punctuation_characters()), keys, steps);
}

void read_delimiter(JsonReader& keys, PretokenizerSteps& steps) {
  const std::string text = keys.get_or<std::string>("delimiter", "");
  if (text.empty() || character_bytes(text[0]) != text.size())
    return keys.problem("delimiter is \"", text, "\"; expected one character");
  add_split(escaped_pattern(text), keys, steps, Behavior::removed);
}

void read_fixed_length(JsonReader& keys, PretokenizerSteps& steps) {
  constexpr Index most = 1000;
  add_split(str("(?m:.){1,", keys.get<Index>("length", 1, most), "}"), keys, steps);
}

/// Returns: when a mark is put before a text: "always", "first" or "never".
std::string read_mark(JsonReader& keys) {
  if (const std::string mark = keys.get_or<std::string>("replacement", std::string(space_mark));
      mark != space_mark)
    keys.problem("replacement is \"", mark, "\"; understood is \"", space_mark, "\"");
  keys.find("str_rep");  // of old files: the replacement again
  const bool old = keys.get_or("add_prefix_space", true);
  const std::string scheme = keys.get_or<std::string>("prepend_scheme", old ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    keys.problem("prepend_scheme is \"", scheme, "\"; understood are always, first, never");
  return scheme;
}

void read_metaspace(JsonReader& keys, PretokenizerSteps& steps) {
  using Kind = PretokenizerStep::Kind;
  const std::string mark(space_mark), scheme = read_mark(keys);
  steps.push_back({Kind::mark, mark});
  if (scheme != "never")
    steps.push_back({scheme == "first" ? Kind::prepend_first : Kind::prepend, mark});
  if (keys.get_or("split", true)) steps.push_back({Kind::split_before, mark});
}

constexpr std::array<PartType<PretokenizerSteps>, 10> pretokenizers = {
    {{"ByteLevel", read_byte_level},
     {"Split", read_split},
     {"Digits", read_digits},
     {"Metaspace", read_metaspace},
     {"Punctuation", read_punctuation},
     {"Whitespace", read_whitespace},
     {"WhitespaceSplit", read_whitespace_split},
     {"BertPreTokenizer", read_bert},
     {"CharDelimiterSplit", read_delimiter},
     {"FixedLength", read_fixed_length}}};

/// A normalizer that is a step of this kind and has no members.
template <NormalizerStep::Kind kind>
void read_plain(JsonReader& /*keys*/, NormalizerSteps& steps) {
  steps.push_back({kind, "", ""});
}

void read_prepend(JsonReader& keys, NormalizerSteps& steps) {
  steps.push_back({NormalizerStep::Kind::prepend, "", keys.get_or<std::string>("prepend", "")});
}

void read_replace(JsonReader& keys, NormalizerSteps& steps) {
  using Kind = NormalizerStep::Kind;
  const Sought pattern = read_pattern(keys);
  const std::string content = keys.get_or<std::string>("content", "");
  if (!pattern.is_regex || can_be_used(pattern.text, keys))
    steps.push_back(
        {pattern.is_regex ? Kind::replace_matches : Kind::replace, pattern.text, content});
}

void read_strip(JsonReader& keys, NormalizerSteps& steps) {
  using Kind = NormalizerStep::Kind;
  if (keys.get_or("strip_left", true)) steps.push_back({Kind::strip_left, "", ""});
  if (keys.get_or("strip_right", true)) steps.push_back({Kind::strip_right, "", ""});
}

void read_strip_accents(JsonReader& /*keys*/, NormalizerSteps& steps) {
  steps.push_back({NormalizerStep::Kind::replace_matches, class_pattern(accent_characters()), ""});
}

using NormalizerKind = NormalizerStep::Kind;
constexpr std::array<PartType<NormalizerSteps>, 10> normalizers = {
    {{"NFC", read_plain<NormalizerKind::nfc>},
     {"NFD", read_plain<NormalizerKind::nfd>},
     {"NFKC", read_plain<NormalizerKind::nfkc>},
     {"NFKD", read_plain<NormalizerKind::nfkd>},
     {"Prepend", read_prepend},
     {"Replace", read_replace},
     {"Strip", read_strip},
     {"StripAccents", read_strip_accents},
     {"Lowercase", read_plain<NormalizerKind::lowercase>},
     {"ByteLevel", read_plain<NormalizerKind::alphabet>}}};

/// A decoder, and whether a Fuse has joined the tokens before this step.
struct DecoderSteps {
  Decoder& decoder;
  bool fused = false;
};

void read_decoder_byte_level(JsonReader& keys, DecoderSteps& steps) {
  for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) keys.find(key);
  if (!steps.decoder.byte_level)
    keys.problem("type is \"ByteLevel\", but neither a normalizer nor a pre-tokenizer is");
}

void read_decoder_replace(JsonReader& keys, DecoderSteps& steps) {
  const std::string pattern = read_string(keys);
  if (steps.fused) keys.problem("type is \"Replace\", but it may not follow Fuse");
  steps.decoder.replace.emplace_back(pattern, keys.get_or<std::string>("content", ""));
}

void read_decoder_strip(JsonReader& keys, DecoderSteps& steps) {
  if (const std::string content = keys.get_or<std::string>("content", ""); content != " ")
    keys.problem("content is \"", content, "\"; understood is \" \"");
  if (const Json* stop = keys.find("stop"); stop && to_text(*stop) != "0")
    keys.problem("stop is ", shown(*stop), "; understood is 0");
  if (!steps.fused) keys.problem("type is \"Strip\"; understood is one behind Fuse");
  if (const Json* start = keys.find("start"); start && to_text(*start) != "0")
    steps.decoder.strip_spaces += keys.get_or<Index>("start", 0, 1, 1000);
}

void read_decoder_metaspace(JsonReader& keys, DecoderSteps& steps) {
  steps.decoder.replace.emplace_back(space_mark, " ");
  if (read_mark(keys) != "never") steps.decoder.strip_spaces = 1;
  keys.find("split");
}

constexpr std::array<PartType<DecoderSteps>, 6> decoders = {
    {{"ByteLevel", read_decoder_byte_level},
     {"ByteFallback", [](JsonReader& /*keys*/, DecoderSteps& /*steps*/) {}},
     {"Fuse", [](JsonReader& /*keys*/, DecoderSteps& steps) { steps.fused = true; }},
     {"Metaspace", read_decoder_metaspace},
     {"Replace", read_decoder_replace},
     {"Strip", read_decoder_strip}}};

/// What it adds is of no concern; its type must be known.
struct NoSteps {};
void read_nothing(JsonReader& keys, NoSteps& /*steps*/) {
  for (const char* key : {"single", "pair", "special_tokens", "add_prefix_space", "trim_offsets",
                          "use_regex", "sep", "cls"})
    keys.find(key);
}
constexpr std::array<PartType<NoSteps>, 4> processors = {{{"TemplateProcessing", read_nothing},
                                                          {"ByteLevel", read_nothing},
                                                          {"RobertaProcessing", read_nothing},
                                                          {"BertProcessing", read_nothing}}};

// In these `file` is the whole of a tokenizer.json.

void read_normalizer(JsonReader& file, NormalizerSteps& steps, Problems& problems) {
  read_part(file, "normalizer", "normalizers", normalizers, steps, problems);
}

/// Each ByteLevel ends with a step `alphabet`.
void read_pretokenizer(JsonReader& file, PretokenizerSteps& steps, Problems& problems) {
  read_part(file, "pre_tokenizer", "pretokenizers", pretokenizers, steps, problems);
}

/// `decoder.byte_level` is there before.
void read_decoder(JsonReader& file, Decoder& decoder, Problems& problems) {
  DecoderSteps steps{decoder};
  read_part(file, "decoder", "decoders", decoders, steps, problems);
}

/// What it adds is of no concern; its kind must be known.
void read_post_processor(JsonReader& file, Problems& problems) {
  NoSteps none;
  read_part(file, "post_processor", "processors", processors, none, problems);
}

using Symbols = TokenizerDefinition::Symbols;

constexpr std::size_t most_problems = 20;

Json read_json(const std::string& path) {
  const DataFile file(path);
  const JsonLimits limits;
  require(file.bytes() <= limits.text_bytes, "has ", file.bytes(), " bytes, more than ",
          limits.text_bytes);
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(0, text.data(), file.bytes());
  return parse_json(text, limits);
}

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  TokenizerDefinition read() {
    JsonReader keys(json_, "", problems_);
    for (const char* unused : {"version", "truncation", "padding"}) keys.find(unused);
    read_normalizer(keys, out_.normalizer, problems_);
    read_pretokenizer(keys, out_.pretokenizer, problems_);
    out_.decoder.byte_level = has_alphabet(out_.normalizer) || has_alphabet(out_.pretokenizer);
    read_decoder(keys, out_.decoder, problems_);
    read_post_processor(keys, problems_);
    if (!keys.has("model")) problem("model is missing; expected an object");
    keys.inside("model", [&](JsonReader& model) { read_model(model); });
    read_added(keys);
    if (problems_.empty()) settle_symbols();
    for (const std::string& key : keys.unread()) problem(key, " is not understood");
    refuse_problems();
    return std::move(out_);
  }

 private:
  template <class... Parts>
  void problem(const Parts&... parts) {
    if (problems_.size() <= most_problems) problems_.push_back(str(parts...));
  }
  void refuse_problems() const {
    if (problems_.empty()) return;
    std::string all;
    for (std::size_t i = 0; i < problems_.size() && i < most_problems; ++i)
      all += "\n  " + problems_[i];
    if (problems_.size() > most_problems) all += "\n  and more";
    throw Error("cannot be used:" + all);
  }

  void read_model(JsonReader& keys) {
    if (!keys.check_object()) return;
    if (const std::string type = keys.get_or<std::string>("type", "BPE"); type != "BPE")
      return problem("model.type is \"", type, "\"; understood is BPE");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const std::string text = keys.get_or<std::string>(key, ""); !text.empty())
        problem("model.", key, " is \"", text, "\"; understood is none");
    if (keys.get_or("dropout", 0.0) != 0) problem("model.dropout is not 0: tokens would be random");
    unknown_ = keys.get_or<std::string>("unk_token", "");
    out_.fuse_unknown = keys.get_or("fuse_unk", false);
    out_.whole_words_first = keys.get_or("ignore_merges", false);
    out_.byte_fallback = keys.get_or("byte_fallback", false);
    read_vocabulary(keys.find("vocab"));
    read_merges(keys.find("merges"));
    for (const std::string& key : keys.unread()) keys.problem(key, " is not understood");
  }

  template <class Steps>
  static bool has_alphabet(const Steps& steps) {
    return std::any_of(steps.begin(), steps.end(), is_alphabet<typename Steps::value_type>);
  }
  template <class Step>
  static bool is_alphabet(const Step& step) {
    return step.kind == Step::Kind::alphabet;
  }

  /// Sees that every text has tokens. Where ByteLevel comes last and all bytes have tokens, the
  /// model begins with bytes; else with characters, of the alphabet or of texts.
  void settle_symbols() {
    std::vector<PretokenizerStep>& steps = out_.pretokenizer;
    const bool ends_in_alphabet = is_in_alphabet();
    const std::string lacking =
        ends_in_alphabet ? lacking_bytes(true)
        : out_.byte_fallback
            ? lacking_bytes(false)
            : "neither a last ByteLevel nor model.byte_fallback gives every character a token";
    const bool last = !steps.empty() && is_alphabet(steps.back());
    out_.symbols = last && lacking.empty() ? Symbols::bytes : Symbols::characters;
    if (out_.symbols == Symbols::bytes) steps.pop_back();
    if (lacking.empty()) return;
    const auto unknown = texts_.find(unknown_);
    if (out_.byte_fallback)
      problem(lacking, ": some characters would have no token");
    else if (unknown == texts_.end())
      problem(lacking, ", and model.unk_token is ", unknown_.empty() ? "none" : "no token",
              ": some characters would have no token");
    else
      out_.unknown = unknown->second;
  }
  /// Whether pieces hold no other characters than GPT-2's alphabet.
  bool is_in_alphabet() const {
    using Kind = PretokenizerStep::Kind;
    bool is_in = !out_.normalizer.empty() && is_alphabet(out_.normalizer.back());
    for (const PretokenizerStep& step : out_.pretokenizer)
      is_in = is_alphabet(step) ||
              (is_in && (step.kind == Kind::split || step.kind == Kind::split_before));
    return is_in;
  }

  void read_vocabulary(const Json* json) {
    const auto* members = json ? std::get_if<Json::Object>(&json->value) : nullptr;
    if (!members || members->empty())
      return problem("model.vocab is ", json ? shown(*json) : "missing",
                     "; expected an object of tokens");
    for (const auto& [text, value] : *members) {
      const Token* token = token_of(value);
      if (!token)
        problem("model.vocab: \"", text, "\" is ", shown(value), "; expected a number below ",
                token_limit);
      else if (!taken_.insert(*token).second)
        problem("model.vocab: \"", text, "\" is ", *token, ", which another one is as well");
      else
        texts_.emplace(text, *token), out_.vocabulary.emplace_back(*token, text);
    }
    std::sort(out_.vocabulary.begin(), out_.vocabulary.end());
  }
  /// Null when it is none; valid until the next call.
  const Token* token_of(const Json& value) {
    const auto* number = std::get_if<Index>(&value.value);
    if (!number || *number < 0 || *number >= token_limit) return nullptr;
    token_ = static_cast<Token>(*number);
    return &token_;
  }

  void read_merges(const Json* json) {
    const auto* merges = json ? std::get_if<Json::Array>(&json->value) : nullptr;
    if (!merges)
      return problem("model.merges is ", json ? shown(*json) : "missing", "; expected a list");
    for (const Json& json_merge : *merges) {
      std::string_view left, right;
      if (!parts_of_merge(json_merge, left, right)) {
        problem("model.merges: ", shown(json_merge), " is not two texts");
        continue;
      }
      const auto a = texts_.find(std::string(left)), b = texts_.find(std::string(right));
      const auto whole = texts_.find(std::string(left).append(right));
      if (a == texts_.end() || b == texts_.end() || whole == texts_.end()) {
        problem("model.merges: ", shown(json_merge), ": model.vocab lacks a part or the whole");
        continue;
      }
      out_.merges.push_back({a->second, b->second, whole->second});
    }
  }
  /// "a b" of old files, ["a", "b"] of new ones.
  static bool parts_of_merge(const Json& json, std::string_view& left, std::string_view& right) {
    if (const auto* text = std::get_if<std::string>(&json.value)) {
      const std::size_t space = text->find(' ');
      if (space == text->npos || text->find(' ', space + 1) != text->npos) return false;
      left = std::string_view(*text).substr(0, space);
      right = std::string_view(*text).substr(space + 1);
    } else {
      const auto* pair = std::get_if<Json::Array>(&json.value);
      if (!pair || pair->size() != 2) return false;
      const auto* a = std::get_if<std::string>(&(*pair)[0].value);
      const auto* b = std::get_if<std::string>(&(*pair)[1].value);
      if (!a || !b) return false;
      left = *a, right = *b;
    }
    return !left.empty() && !right.empty();
  }

  /// Empty when there are none.
  std::string lacking_bytes(bool in_alphabet) const {
    std::vector<std::string> lacking;
    for (int i = 0; i < 256; ++i) {
      const auto byte = static_cast<unsigned char>(i);
      const std::string name = name_of_byte(byte);
      std::string in_file = in_alphabet ? "" : name;
      if (in_alphabet) append_in_alphabet({reinterpret_cast<const char*>(&byte), 1}, in_file);
      if (is_byte_of_utf8(byte) && !texts_.contains(in_file)) lacking.push_back(name);
    }
    return lacking.empty() ? ""
                           : str("model.vocab lacks ", lacking.size(),
                                 " of the 243 bytes of UTF-8; the first is ", lacking.front());
  }

  void read_added(JsonReader& file) {
    file.each("added_tokens", [&](JsonReader& token) {
      if (problems_.size() <= most_problems) read_added_token(token);
    });
    std::sort(out_.added.begin(), out_.added.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  }
  void read_added_token(JsonReader& keys) {
    const std::string content = keys.get_or<std::string>("content", "");
    const Json* id = keys.find("id");
    const Token* token = id ? token_of(*id) : nullptr;
    const bool special = keys.get_or("special", false), single = keys.get_or("single_word", false);
    const AddedToken added{token ? *token : 0, content, keys.get_or("lstrip", false),
                           keys.get_or("rstrip", false), keys.get_or("normalized", !special)};
    for (const std::string& key : keys.unread()) keys.problem(key, " is not understood");
    if (content.empty() || !token)
      return problem("added_tokens: ", shown(keys.json()), " lacks a content or an id below ",
                     token_limit);
    if (single)
      problem("added_tokens: single_word of \"", content, "\" is true; understood is false");
    if (!added_.insert(content).second)
      return problem("added_tokens: \"", content, "\" is there twice");
    check_number(added);
    out_.added.push_back(added);
  }
  /// The package `tokenizers` numbers tokens that the model lacks itself, whatever the file says.
  void check_number(const AddedToken& added) {
    const auto in_model = texts_.find(added.content);
    const auto size = static_cast<Token>(out_.vocabulary.size());
    const Token right =
        in_model != texts_.end() ? in_model->second : std::max(last_added_ + 1, size);
    if (added.id != right)
      problem("added_tokens: the id of \"", added.content, "\" is ", added.id, "; right is ",
              right);
    last_added_ = std::max(last_added_, added.id);
  }

  const Json& json_;
  TokenizerDefinition out_;
  Problems problems_;
  std::unordered_map<std::string, Token> texts_;  // of the model
  std::unordered_set<Token> taken_;
  std::unordered_set<std::string> added_;
  std::string unknown_;  // model.unk_token
  Token token_ = 0, last_added_ = -1;
};

}  // namespace

TokenizerDefinition read_tokenizer(const std::string& path) {
  try {
    const Json json = read_json(path);
    return Reader(json).read();
  } catch (const Error& error) {
    const std::string text = error.what();
    throw Error(text.starts_with(path) ? text : path + ": " + text);
  }
}

}  // namespace trireme::data
