// Sidecar: PREFIX.json beside PREFIX.bin and PREFIX.idx says which tokenizer made the tokens, and
// of how much text. `trireme data prepare` writes it; token files without one are used as well.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/data/source.h"
#include "trireme/data/token_file.h"

namespace trireme {

struct Sidecar {
  static constexpr const char* bytes = "bytes";  // the tokenizer whose tokens are bytes

  std::string tokenizer;  // its hash, 16 hex digits; or `bytes`
  Index vocabulary = 0;   // its tokens lie in [0, vocabulary)
  std::optional<Index> bos, eod;
  Index documents = 0, tokens = 0;
  Index text_bytes = 0;       // size as UTF-8, before it became tokens
  Index empty_documents = 0;  // documents without text, left out
  bool prepend_bos = false, append_eod = false;
  std::vector<std::string> json_keys;

  /// Returns the average over the whole corpus, for bits per byte: log2(e) * loss /
  /// bytes_per_token(). Tokens that were added count as tokens without text.
  double bytes_per_token() const;
};

/// The entry of DataSource::identity() with the tokenizer, where sidecars name it.
inline constexpr const char* tokenizer_fact = "tokenizer";

/// Whose tokens a job reads or makes.
struct UsedTokenizer {
  std::string hash;  // as Sidecar::tokenizer; "": not known
  std::string file;  // that says so, for messages; "": none
};
/// Returns the tokenizer that the source's identity() names.
UsedTokenizer tokenizer_of(const DataSource& source);

/// PREFIX.json, or none where it does not exist or is another kind of file. Throws: Error that
/// names the file and the member that is missing or wrong.
std::optional<Sidecar> read_sidecar(const std::string& prefix);
/// Reads the sidecar of an open file. Throws: Error also when it was written for other tokens.
std::optional<Sidecar> read_sidecar(const TokenFile& file);
/// Returns the largest vocabulary that sidecars of these files name; none if none does.
std::optional<Index> common_vocabulary(const std::vector<std::string>& prefixes);

/// What follows each document in token files that were made with append_eod: one token.
struct DocumentEnd {
  Index token = 0;
  std::string file;  // the sidecar that says so
};
/// Returns the end that all of these have which were made so; none if none was. Throws: Error that
/// names two files of different tokens.
std::optional<DocumentEnd> common_document_end(const std::vector<std::string>& prefixes);
/// The hash of the one tokenizer that all of these have which have a sidecar; "" if none has.
/// Throws: Error that names two files of different tokenizers; as common_document_end().
std::string common_tokenizer(const std::vector<std::string>& prefixes);

}  // namespace trireme
