#include "runtime/data/tokenizer/tokenizer_steps.h"

#include <functional>

#include "runtime/core/json/json_keys.h"
#include "runtime/data/tokenizer/pretokenizer_pattern.h"

namespace trireme::data {
namespace {

/// More than any tokenizer has; each costs a call in a call.
constexpr std::size_t most_steps = 32;

bool is_null(const Json& json) { return std::holds_alternative<std::nullptr_t>(json.value); }

/// One part of a tokenizer.json, of one `type`. `understood`: the types, for the message.
using ReadPart = std::function<bool(const std::string& type, JsonKeys& keys)>;

void refuse_unread(JsonKeys& keys) {
  for (const std::string& key : keys.unread()) keys.problem(key, " is not understood");
}

/// Calls `read` for a part, or in order for all parts of a Sequence, whose key is `list`.
void read_parts(const Json& json, const std::string& where, const char* list,
                const char* understood, Problems& problems, const ReadPart& read) {
  if (is_null(json)) return;
  JsonKeys keys(json, where + ".", problems);
  const std::string type = keys.word("type", "");
  if (type == "Sequence") {
    const Json* parts = keys.find(list);
    const auto* array = parts ? std::get_if<Json::Array>(&parts->value) : nullptr;
    if (!array) return keys.problem(list, " is missing; expected a list");
    for (std::size_t i = 0; i < array->size(); ++i)
      read_parts((*array)[i], str(where, ".", list, "[", i, "]"), list, understood, problems, read);
  } else if (!read(type, keys)) {
    return keys.problem("type is \"", type, "\"; understood are ", understood, ", Sequence");
  }
  refuse_unread(keys);
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

void add_split(const std::string& pattern, JsonKeys& keys, std::vector<PretokenizerStep>& steps) {
  if (const std::string wrong = problem_of_pattern(pattern); !wrong.empty())
    keys.problem("pattern \"", pattern, "\": ", wrong);
  else
    steps.push_back({PretokenizerStep::Kind::split, pattern});
}

void read_split(JsonKeys& keys, std::vector<PretokenizerStep>& steps) {
  const Sought pattern = read_pattern(keys);
  if (const std::string behavior = keys.word("behavior", ""); behavior != "Isolated")
    keys.problem("behavior is \"", behavior, "\"; understood is Isolated");
  if (keys.flag("invert", false)) keys.problem("invert is true; understood is false");
  add_split(pattern.is_regex ? pattern.text : escaped_pattern(pattern.text), keys, steps);
}

void read_byte_level(JsonKeys& keys, std::vector<PretokenizerStep>& steps) {
  keys.flag("trim_offsets", true);  // of offsets, not of tokens
  if (keys.flag("add_prefix_space", true)) steps.push_back({PretokenizerStep::Kind::prepend, " "});
  if (keys.flag("use_regex", true)) add_split(gpt2_pattern, keys, steps);
}

void read_digits(JsonKeys& keys, std::vector<PretokenizerStep>& steps) {
  add_split(keys.flag("individual_digits", false) ? "\\p{N}" : "\\p{N}+", keys, steps);
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

void read_metaspace(JsonKeys& keys, std::vector<PretokenizerStep>& steps) {
  using Kind = PretokenizerStep::Kind;
  const std::string mark(space_mark), scheme = read_mark(keys);
  steps.push_back({Kind::mark, mark});
  if (scheme != "never")
    steps.push_back({scheme == "first" ? Kind::prepend_first : Kind::prepend, mark});
  if (keys.flag("split", true)) steps.push_back({Kind::split_before, mark});
}

}  // namespace

void read_normalizer(const Json& json, std::vector<NormalizerStep>& steps, Problems& problems) {
  using Kind = NormalizerStep::Kind;
  std::size_t count = 0;
  const auto read = [&](const std::string& type, JsonKeys& keys) {
    if (++count > most_steps) return true;
    if (type == "NFC") {
      steps.push_back({Kind::nfc, "", ""});
    } else if (type == "Prepend") {
      steps.push_back({Kind::prepend, "", keys.word("prepend", "")});
    } else if (type == "Replace") {
      const Sought pattern = read_pattern(keys);
      if (pattern.is_regex) keys.problem("pattern is a Regex; understood is a String");
      steps.push_back({Kind::replace, pattern.text, keys.word("content", "")});
    } else {
      return false;
    }
    return true;
  };
  read_parts(json, "normalizer", "normalizers", "NFC, Prepend, Replace", problems, read);
  refuse_many_steps("normalizer", count, problems);
}

bool read_pretokenizer(const Json& json, std::vector<PretokenizerStep>& steps, Problems& problems) {
  bool byte_level = false;
  std::size_t count = 0;
  const auto read = [&](const std::string& type, JsonKeys& keys) {
    if (++count > most_steps) return true;
    if (byte_level) keys.problem("type is \"", type, "\", but nothing may follow ByteLevel");
    if (type == "ByteLevel")
      read_byte_level(keys, steps), byte_level = true;
    else if (type == "Split")
      read_split(keys, steps);
    else if (type == "Digits")
      read_digits(keys, steps);
    else if (type == "Metaspace")
      read_metaspace(keys, steps);
    else
      return false;
    return true;
  };
  read_parts(json, "pre_tokenizer", "pretokenizers", "ByteLevel, Split, Digits, Metaspace",
             problems, read);
  refuse_many_steps("pre_tokenizer", count, problems);
  return byte_level;
}

void read_decoder(const Json& json, TokenizerDefinition::Symbols symbols, Decoder& decoder,
                  Problems& problems) {
  bool fused = false;
  const auto read = [&](const std::string& type, JsonKeys& keys) {
    if (type == "ByteLevel") {
      for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) keys.find(key);
      if (symbols != TokenizerDefinition::Symbols::bytes)
        keys.problem("type is \"ByteLevel\", but the last pre-tokenizer is not");
    } else if (type == "Replace") {
      const Sought pattern = read_pattern(keys);
      if (pattern.is_regex) keys.problem("pattern is a Regex; understood is a String");
      if (fused) keys.problem("type is \"Replace\", but it may not follow Fuse");
      decoder.replace.emplace_back(pattern.text, keys.word("content", ""));
    } else if (type == "Strip") {
      if (const std::string content = keys.word("content", ""); content != " ")
        keys.problem("content is \"", content, "\"; understood is \" \"");
      if (const Json* stop = keys.find("stop"); stop && to_text(*stop) != "0")
        keys.problem("stop is ", shown(*stop), "; understood is 0");
      if (!fused) keys.problem("type is \"Strip\"; understood is one behind Fuse");
      if (const Json* start = keys.find("start"); start && to_text(*start) != "0")
        decoder.strip_spaces += keys.whole("start", 1000, 0);
    } else if (type == "Metaspace") {
      decoder.replace.emplace_back(space_mark, " ");
      if (read_mark(keys) != "never") decoder.strip_spaces = 1;
      keys.find("split");
    } else if (type == "Fuse") {
      fused = true;
    } else if (type != "ByteFallback") {
      return false;
    }
    return true;
  };
  read_parts(json, "decoder", "decoders",
             "ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip", problems, read);
}

void read_post_processor(const Json& json, Problems& problems) {
  const auto read = [&](const std::string& type, JsonKeys& keys) {
    for (const char* key : {"single", "pair", "special_tokens", "add_prefix_space", "trim_offsets",
                            "use_regex", "sep", "cls"})
      keys.find(key);
    return type == "TemplateProcessing" || type == "ByteLevel" || type == "RobertaProcessing" ||
           type == "BertProcessing";
  };
  read_parts(json, "post_processor", "processors",
             "TemplateProcessing, ByteLevel, RobertaProcessing, BertProcessing", problems, read);
}

}  // namespace trireme::data
