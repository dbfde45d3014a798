// The tokens at the beginning of a text and at the end of a document.
#pragma once

#include <filesystem>
#include <optional>

#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

struct Ends {
  std::optional<Token> bos, eod;
};
/// As tokenizer_config.json or config.json in `directory` say, else by the usual names. Throws:
/// Error that names a file that says what the vocabulary does not have.
Ends find_ends(const TokenizerDefinition& definition, const std::filesystem::path& directory);

}  // namespace trireme::data
