// Reads a tokenizer.json, which may be anything: what a TokenizerDefinition holds fits together.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "trireme/core/error.h"

#include "runtime/core/json/json.h"
#include "runtime/core/json/json_record.h"
#include "runtime/data/data_file.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"
#include "runtime/data/tokenizer/tokenizer_steps.h"

namespace trireme::data {
namespace {

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
