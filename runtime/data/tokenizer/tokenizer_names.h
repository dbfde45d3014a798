// The tokens at the beginning of a text and at the end of a document, and those where generated
// text ends, as files beside a tokenizer.json say.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

struct Ends {
  std::optional<Token> bos, eod;
  std::vector<Token> stops;
  std::vector<std::string> warnings;  // where files disagree, a sentence each
};
/// As transformers: bos and eod are those of special_tokens_map.json (where tokenizer_config.json
/// has no added_tokens_decoder) or tokenizer_config.json; a token that only these have is added to
/// `definition`. Where they say nothing, those of generation_config.json or config.json, else of
/// the usual names. Stops are those of generation_config.json or config.json, else eod. Throws:
/// Error that names a file which is broken.
Ends find_ends(TokenizerDefinition& definition, const std::filesystem::path& directory);

}  // namespace trireme::data
