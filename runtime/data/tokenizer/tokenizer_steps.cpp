#include "runtime/data/tokenizer/tokenizer_steps.h"

#include <algorithm>
#include <array>

#include "trireme/core/error.h"

#include "runtime/core/json/json_keys.h"
#include "runtime/data/tokenizer/pretokenizer_pattern.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

/// More than any tokenizer has; each costs a call in a call.
constexpr std::size_t most_steps = 32;

bool is_null(const Json& json) { return std::holds_alternative<std::nullptr_t>(json.value); }

/// Reads the parts of one type.
template <class Steps>
struct PartType {
  const char* name;
  void (*read)(JsonKeys& keys, Steps& steps);
};

template <class Types>
std::string names_of(const Types& types) {
  std::string names;
  for (const auto& type : types) names += str(type.name, ", ");
  return names + "Sequence";
}

void refuse_unread(JsonKeys& keys) {
  for (const std::string& key : keys.unread()) keys.problem(key, " is not understood");
}

/// Reads a part, or in order all parts of a Sequence, whose key is `list`. Returns: how many parts
/// there are; those behind most_steps are not read.
template <class Steps, std::size_t Count>
std::size_t read_parts(const Json& json, const std::string& where, const char* list,
                       const std::array<PartType<Steps>, Count>& types, Problems& problems,
                       Steps& steps, std::size_t before = 0) {
  if (is_null(json)) return before;
  JsonKeys keys(json, where + ".", problems);
  const std::string type = keys.word("type", "");
  std::size_t count = before;
  if (type == "Sequence") {
    const Json* parts = keys.find(list);
    const auto* array = parts ? std::get_if<Json::Array>(&parts->value) : nullptr;
    if (!array) return keys.problem(list, " is missing; expected a list"), count;
    for (std::size_t i = 0; i < array->size(); ++i)
      count = read_parts((*array)[i], str(where, ".", list, "[", i, "]"), list, types, problems,
                         steps, count);
  } else if (++count <= most_steps) {
    const auto found =
        std::find_if(types.begin(), types.end(), [&](const auto& one) { return type == one.name; });
    if (found == types.end()) {
      keys.problem("type is \"", type, "\"; understood are ", names_of(types));
      return count;
    }
    found->read(keys, steps);
  } else {
    return count;
  }
  refuse_unread(keys);
  return count;
}

/// First of all: steps that are not read have keys that are not.
void refuse_many_steps(const char* part, std::size_t count, Problems& problems) {
  if (count > most_steps)
    problems.insert(problems.begin(),
                    str(part, " has ", count, " steps; understood are ", most_steps));
}

struct Sought {
  std::string text;
  bool is_regex = false;
};

Sought read_pattern(JsonKeys& keys) {
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

std::string read_string(JsonKeys& keys) {
  const Sought pattern = read_pattern(keys);
  if (pattern.is_regex) keys.problem("pattern is a Regex; understood is a String");
  return pattern.text;
}

using NormalizerSteps = std::vector<NormalizerStep>;
using PretokenizerSteps = std::vector<PretokenizerStep>;
using Behavior = PretokenizerStep::Behavior;

bool can_be_used(const std::string& pattern, JsonKeys& keys) {
  try {
    const Pattern compiled(pattern);
    return true;
  } catch (const Error& error) {
    keys.problem("pattern \"", pattern, "\": ", error.what());
    return false;
  }
}

void add_split(const std::string& pattern, JsonKeys& keys, PretokenizerSteps& steps,
               Behavior behavior = Behavior::isolated, bool invert = false) {
  if (can_be_used(pattern, keys))
    steps.push_back({PretokenizerStep::Kind::split, pattern, behavior, invert});
}

Behavior read_behavior(JsonKeys& keys, const char* absent) {
  constexpr std::array<const char*, 5> names = {"Isolated", "Removed", "MergedWithPrevious",
                                                "MergedWithNext", "Contiguous"};  // as the enum
  const std::string name = keys.word("behavior", absent);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<Behavior>(found - names.begin());
  keys.problem("behavior is \"", name, "\"; understood are Isolated, Removed, MergedWithPrevious, ",
               "MergedWithNext, Contiguous");
  return Behavior::isolated;
}

void read_split(JsonKeys& keys, PretokenizerSteps& steps) {
  const Sought pattern = read_pattern(keys);
  const Behavior behavior = read_behavior(keys, "");
  const bool invert = keys.flag("invert", false);
  add_split(pattern.is_regex ? pattern.text : escaped_pattern(pattern.text), keys, steps, behavior,
            invert);
}

void read_byte_level(JsonKeys& keys, PretokenizerSteps& steps) {
  keys.flag("trim_offsets", true);  // of offsets, not of tokens
  if (keys.flag("add_prefix_space", true)) steps.push_back({PretokenizerStep::Kind::prepend, " "});
  if (keys.flag("use_regex", true)) add_split(gpt2_pattern, keys, steps);
  steps.push_back({PretokenizerStep::Kind::alphabet, ""});
}

void read_digits(JsonKeys& keys, PretokenizerSteps& steps) {
  add_split(keys.flag("individual_digits", false) ? "\\p{N}" : "\\p{N}+", keys, steps);
}

void read_punctuation(JsonKeys& keys, PretokenizerSteps& steps) {
  add_split(class_pattern(punctuation_characters()), keys, steps, read_behavior(keys, "Isolated"));
}

/// Its words also have what joins letters without a mark, and no numerals but digits.
void read_whitespace(JsonKeys& keys, PretokenizerSteps& steps) {
  const std::string word = R"(\w\x{200C}\x{200D}&&[^\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE}])";
  add_split(str("[", word, "]+|[^\\s[", word, "]]+"), keys, steps, Behavior::removed, true);
}

void read_whitespace_split(JsonKeys& keys, PretokenizerSteps& steps) {
  add_split("\\s", keys, steps, Behavior::removed);
}

void read_bert(JsonKeys& keys, PretokenizerSteps& steps) {
  read_whitespace_split(keys, steps);
  add_split(class_pattern(punctuation_characters()), keys, steps);
}

void read_delimiter(JsonKeys& keys, PretokenizerSteps& steps) {
  const std::string text = keys.word("delimiter", "");
  if (text.empty() || character_bytes(text[0]) != text.size())
    return keys.problem("delimiter is \"", text, "\"; expected one character");
  add_split(escaped_pattern(text), keys, steps, Behavior::removed);
}

void read_fixed_length(JsonKeys& keys, PretokenizerSteps& steps) {
  constexpr Index most = 1000;
  if (const Index length = keys.whole("length", most); length > 0)
    add_split(str("(?m:.){1,", length, "}"), keys, steps);
  else
    keys.problem("length is ", length, "; expected 1 to ", most);
}

/// Returns: when a mark is put before a text: "always", "first" or "never".
std::string read_mark(JsonKeys& keys) {
  if (const std::string mark = keys.word("replacement", std::string(space_mark));
      mark != space_mark)
    keys.problem("replacement is \"", mark, "\"; understood is \"", space_mark, "\"");
  keys.find("str_rep");  // of old files: the replacement again
  const bool old = keys.flag("add_prefix_space", true);
  const std::string scheme = keys.word("prepend_scheme", old ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    keys.problem("prepend_scheme is \"", scheme, "\"; understood are always, first, never");
  return scheme;
}

void read_metaspace(JsonKeys& keys, PretokenizerSteps& steps) {
  using Kind = PretokenizerStep::Kind;
  const std::string mark(space_mark), scheme = read_mark(keys);
  steps.push_back({Kind::mark, mark});
  if (scheme != "never")
    steps.push_back({scheme == "first" ? Kind::prepend_first : Kind::prepend, mark});
  if (keys.flag("split", true)) steps.push_back({Kind::split_before, mark});
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
void read_plain(JsonKeys& /*keys*/, NormalizerSteps& steps) {
  steps.push_back({kind, "", ""});
}

void read_prepend(JsonKeys& keys, NormalizerSteps& steps) {
  steps.push_back({NormalizerStep::Kind::prepend, "", keys.word("prepend", "")});
}

void read_replace(JsonKeys& keys, NormalizerSteps& steps) {
  using Kind = NormalizerStep::Kind;
  const Sought pattern = read_pattern(keys);
  const std::string content = keys.word("content", "");
  if (!pattern.is_regex || can_be_used(pattern.text, keys))
    steps.push_back(
        {pattern.is_regex ? Kind::replace_matches : Kind::replace, pattern.text, content});
}

void read_strip(JsonKeys& keys, NormalizerSteps& steps) {
  using Kind = NormalizerStep::Kind;
  if (keys.flag("strip_left", true)) steps.push_back({Kind::strip_left, "", ""});
  if (keys.flag("strip_right", true)) steps.push_back({Kind::strip_right, "", ""});
}

void read_strip_accents(JsonKeys& /*keys*/, NormalizerSteps& steps) {
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

void read_decoder_byte_level(JsonKeys& keys, DecoderSteps& steps) {
  for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) keys.find(key);
  if (!steps.decoder.byte_level)
    keys.problem("type is \"ByteLevel\", but neither a normalizer nor a pre-tokenizer is");
}

void read_decoder_replace(JsonKeys& keys, DecoderSteps& steps) {
  const std::string pattern = read_string(keys);
  if (steps.fused) keys.problem("type is \"Replace\", but it may not follow Fuse");
  steps.decoder.replace.emplace_back(pattern, keys.word("content", ""));
}

void read_decoder_strip(JsonKeys& keys, DecoderSteps& steps) {
  if (const std::string content = keys.word("content", ""); content != " ")
    keys.problem("content is \"", content, "\"; understood is \" \"");
  if (const Json* stop = keys.find("stop"); stop && to_text(*stop) != "0")
    keys.problem("stop is ", shown(*stop), "; understood is 0");
  if (!steps.fused) keys.problem("type is \"Strip\"; understood is one behind Fuse");
  if (const Json* start = keys.find("start"); start && to_text(*start) != "0")
    steps.decoder.strip_spaces += keys.whole("start", 1000, 0);
}

void read_decoder_metaspace(JsonKeys& keys, DecoderSteps& steps) {
  steps.decoder.replace.emplace_back(space_mark, " ");
  if (read_mark(keys) != "never") steps.decoder.strip_spaces = 1;
  keys.find("split");
}

constexpr std::array<PartType<DecoderSteps>, 6> decoders = {
    {{"ByteLevel", read_decoder_byte_level},
     {"ByteFallback", [](JsonKeys& /*keys*/, DecoderSteps& /*steps*/) {}},
     {"Fuse", [](JsonKeys& /*keys*/, DecoderSteps& steps) { steps.fused = true; }},
     {"Metaspace", read_decoder_metaspace},
     {"Replace", read_decoder_replace},
     {"Strip", read_decoder_strip}}};

/// What it adds is of no concern; its type must be known.
struct NoSteps {};
void read_nothing(JsonKeys& keys, NoSteps& /*steps*/) {
  for (const char* key : {"single", "pair", "special_tokens", "add_prefix_space", "trim_offsets",
                          "use_regex", "sep", "cls"})
    keys.find(key);
}
constexpr std::array<PartType<NoSteps>, 4> processors = {{{"TemplateProcessing", read_nothing},
                                                          {"ByteLevel", read_nothing},
                                                          {"RobertaProcessing", read_nothing},
                                                          {"BertProcessing", read_nothing}}};

}  // namespace

void read_normalizer(const Json& json, NormalizerSteps& steps, Problems& problems) {
  refuse_many_steps("normalizer",
                    read_parts(json, "normalizer", "normalizers", normalizers, problems, steps),
                    problems);
}

void read_pretokenizer(const Json& json, PretokenizerSteps& steps, Problems& problems) {
  refuse_many_steps(
      "pre_tokenizer",
      read_parts(json, "pre_tokenizer", "pretokenizers", pretokenizers, problems, steps), problems);
}

void read_decoder(const Json& json, Decoder& decoder, Problems& problems) {
  DecoderSteps steps{decoder};
  refuse_many_steps("decoder", read_parts(json, "decoder", "decoders", decoders, problems, steps),
                    problems);
}

void read_post_processor(const Json& json, Problems& problems) {
  NoSteps none;
  read_parts(json, "post_processor", "processors", processors, problems, none);
}

}  // namespace trireme::data
