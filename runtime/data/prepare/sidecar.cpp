#include "runtime/data/prepare/sidecar.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
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

}  // namespace

void describe(RecordOf<Sidecar> auto& s, auto& member) {
  constexpr Index most_tokens = std::numeric_limits<std::int32_t>::max();
  const auto count = [](auto& number) {
    return within(number, 0, std::numeric_limits<Index>::max());
  };
  member.constant(format_member, format);
  member("tokenizer", s.tokenizer);
  member("vocabulary", within(s.vocabulary, 1, most_tokens));
  member("bos", count(s.bos));
  member("eod", count(s.eod));
  member("documents", count(s.documents));
  member("tokens", count(s.tokens));
  member("text_bytes", count(s.text_bytes));
  member("empty_documents", count(s.empty_documents));
  member("prepend_bos", s.prepend_bos);
  member("append_eod", s.append_eod);
  member("json_keys", s.json_keys);
}

namespace data {

std::string sidecar_path(const std::string& prefix) { return prefix + ".json"; }

std::string text_of(const Sidecar& sidecar) { return to_text(to_json(sidecar)) + "\n"; }

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
  return from_json<Sidecar>(*json, path);
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
