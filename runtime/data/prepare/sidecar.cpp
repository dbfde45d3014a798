#include "runtime/data/prepare/sidecar.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json.h"
#include "runtime/core/require_call.h"
#include "runtime/data/data_file.h"

namespace trireme {

using namespace data;

namespace {

constexpr const char* format_member = "trireme_corpus";
constexpr Index format = 1, most_bytes = 1 << 20;

/// The object of a file that is a sidecar by its first member; otherwise none.
std::optional<Json> json_of(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  const DataFile file(path);
  if (file.bytes() > most_bytes) return std::nullopt;
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(0, text.data(), file.bytes());
  if (text.find(format_member) == std::string::npos) return std::nullopt;
  try {
    Json json = parse_json(text);
    if (json.find(format_member) == nullptr) return std::nullopt;
    return json;
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

/// Members by name and type; what is wrong names the file.
class Members {
 public:
  Members(const std::string& path, const Json& json) : path_(path), json_(json) {}

  template <class T>
  const T& get(const char* name, const char* kind) const {
    const Json* found = json_.find(name);
    require(found != nullptr, path_, ": has no member '", name, "'");
    const T* value = std::get_if<T>(&found->value);
    require(value != nullptr, path_, ": '", name, "' is not ", kind);
    return *value;
  }
  Index count(const char* name) const {
    const Index value = get<Index>(name, "a whole number");
    require(value >= 0, path_, ": '", name, "' is ", value, ", less than 0");
    return value;
  }
  std::optional<Index> token(const char* name) const {
    const Json* found = json_.find(name);
    if (found != nullptr && std::holds_alternative<std::nullptr_t>(found->value))
      return std::nullopt;
    return count(name);
  }
  bool flag(const char* name) const { return get<bool>(name, "true or false"); }
  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> all;
    for (const Json& each : get<Json::Array>(name, "an array")) {
      const auto* text = std::get_if<std::string>(&each.value);
      require(text != nullptr, path_, ": '", name, "' has an element that is not text");
      all.push_back(*text);
    }
    return all;
  }

 private:
  const std::string& path_;
  const Json& json_;
};

Json json_of(const std::optional<Index>& token) { return token ? Json(*token) : Json(); }

}  // namespace

namespace data {

std::string sidecar_path(const std::string& prefix) { return prefix + ".json"; }

std::string text_of(const Sidecar& s) {
  Json::Array keys(s.json_keys.begin(), s.json_keys.end());
  return to_text(Json::Object{{format_member, format},
                              {"tokenizer", s.tokenizer},
                              {"vocabulary", s.vocabulary},
                              {"bos", json_of(s.bos)},
                              {"eod", json_of(s.eod)},
                              {"documents", s.documents},
                              {"tokens", s.tokens},
                              {"text_bytes", s.text_bytes},
                              {"empty_documents", s.empty_documents},
                              {"prepend_bos", s.prepend_bos},
                              {"append_eod", s.append_eod},
                              {"json_keys", std::move(keys)}}) +
         "\n";
}

bool is_taken(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && !json_of(path);
}

void remove_sidecar(const std::string& prefix) {
  const std::string path = sidecar_path(prefix);
  if (is_taken(path)) return;
  require_call(::unlink(path.c_str()) == 0 || errno == ENOENT, path, ": cannot be removed");
}

}  // namespace data

double Sidecar::bytes_per_token() const {
  return tokens == 0 ? 0 : static_cast<double>(text_bytes) / static_cast<double>(tokens);
}

UsedTokenizer tokenizer_of(const DataSource& source) {
  for (const auto& [fact, value] : source.identity())
    if (fact == tokenizer_fact) return {value, source.file_of(fact)};
  return {};
}

std::optional<Sidecar> read_sidecar(const std::string& prefix) {
  const std::string path = sidecar_path(prefix);
  const std::optional<Json> json = json_of(path);
  if (!json) return std::nullopt;
  const Members members(path, *json);
  const Index found = members.count(format_member);
  require(found == format, path, ": has format ", found, "; known is ", format);
  Sidecar s;
  s.tokenizer = members.get<std::string>("tokenizer", "text");
  s.vocabulary = members.count("vocabulary");
  constexpr Index most_tokens = std::numeric_limits<std::int32_t>::max();
  require(1 <= s.vocabulary && s.vocabulary <= most_tokens, path, ": 'vocabulary' is ",
          s.vocabulary, "; expected 1 to ", most_tokens);
  s.bos = members.token("bos");
  s.eod = members.token("eod");
  s.documents = members.count("documents");
  s.tokens = members.count("tokens");
  s.text_bytes = members.count("text_bytes");
  s.empty_documents = members.count("empty_documents");
  s.prepend_bos = members.flag("prepend_bos");
  s.append_eod = members.flag("append_eod");
  s.json_keys = members.texts("json_keys");
  return s;
}

std::optional<Sidecar> read_sidecar(const TokenFile& file) {
  std::optional<Sidecar> sidecar = read_sidecar(file.prefix());
  if (sidecar)
    require(sidecar->tokens == file.tokens() && sidecar->documents == file.documents(),
            sidecar_path(file.prefix()), ": is of ", sidecar->documents, " documents with ",
            sidecar->tokens, " tokens, but ", file.prefix(), ".bin has ", file.documents(),
            " with ", file.tokens(), "; prepare the text again, or remove the .json");
  return sidecar;
}

std::optional<Index> common_vocabulary(const std::vector<std::string>& prefixes) {
  std::optional<Index> vocabulary;
  for (const std::string& prefix : prefixes)
    if (const auto sidecar = read_sidecar(prefix))
      vocabulary = std::max(vocabulary.value_or(0), sidecar->vocabulary);
  return vocabulary;
}

std::optional<DocumentEnd> common_document_end(const std::vector<std::string>& prefixes) {
  std::optional<DocumentEnd> end;
  for (const std::string& prefix : prefixes) {
    const std::optional<Sidecar> sidecar = read_sidecar(prefix);
    if (!sidecar || !sidecar->append_eod || !sidecar->eod) continue;
    require(!end || end->token == *sidecar->eod, sidecar_path(prefix),
            ": its documents end with token ", *sidecar->eod, ", and those of ",
            end ? end->file : "", " with ", end ? end->token : 0,
            "; prepare all texts of a blend with one such token, which tokenizer_config.json "
            "beside tokenizer.json says");
    end = DocumentEnd{*sidecar->eod, sidecar_path(prefix)};
  }
  return end;
}

std::string common_tokenizer(const std::vector<std::string>& prefixes) {
  std::string tokenizer, of;
  for (const std::string& prefix : prefixes) {
    const std::optional<Sidecar> sidecar = read_sidecar(prefix);
    if (!sidecar) continue;
    require(tokenizer.empty() || tokenizer == sidecar->tokenizer, sidecar_path(prefix),
            ": has tokens of tokenizer ", sidecar->tokenizer, ", and ", sidecar_path(of), " of ",
            tokenizer, "; prepare all texts of a blend with one tokenizer");
    tokenizer = sidecar->tokenizer;
    of = prefix;
  }
  common_document_end(prefixes);
  return tokenizer;
}

}  // namespace trireme
