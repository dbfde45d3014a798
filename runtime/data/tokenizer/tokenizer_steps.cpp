#include "runtime/data/tokenizer/tokenizer_steps.h"

#include <algorithm>
#include <array>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
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

}  // namespace

void read_normalizer(JsonReader& file, NormalizerSteps& steps, Problems& problems) {
  read_part(file, "normalizer", "normalizers", normalizers, steps, problems);
}

void read_pretokenizer(JsonReader& file, PretokenizerSteps& steps, Problems& problems) {
  read_part(file, "pre_tokenizer", "pretokenizers", pretokenizers, steps, problems);
}

void read_decoder(JsonReader& file, Decoder& decoder, Problems& problems) {
  DecoderSteps steps{decoder};
  read_part(file, "decoder", "decoders", decoders, steps, problems);
}

void read_post_processor(JsonReader& file, Problems& problems) {
  NoSteps none;
  read_part(file, "post_processor", "processors", processors, none, problems);
}

}  // namespace trireme::data
