// The normalizer, pre-tokenizer and decoder of a tokenizer.json as steps. What is not understood
// becomes a problem.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/json.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

using Problems = std::vector<std::string>;

void read_normalizer(const Json& json, std::vector<NormalizerStep>& steps, Problems& problems);

/// Returns: whether the last step is ByteLevel, so that pieces are bytes.
bool read_pretokenizer(const Json& json, std::vector<PretokenizerStep>& steps, Problems& problems);

void read_decoder(const Json& json, TokenizerDefinition::Symbols symbols, Decoder& decoder,
                  Problems& problems);

/// What it adds is of no concern; its kind must be known.
void read_post_processor(const Json& json, Problems& problems);

}  // namespace trireme::data
