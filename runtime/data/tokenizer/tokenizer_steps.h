// The normalizer, pre-tokenizer and decoder of a tokenizer.json as steps. What is not understood
// becomes a problem.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/json/json_record.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

using Problems = std::vector<std::string>;

// `file` is the whole of a tokenizer.json.

void read_normalizer(JsonReader& file, std::vector<NormalizerStep>& steps, Problems& problems);

/// Each ByteLevel ends with a step `alphabet`.
void read_pretokenizer(JsonReader& file, std::vector<PretokenizerStep>& steps, Problems& problems);

/// `decoder.byte_level` is there before.
void read_decoder(JsonReader& file, Decoder& decoder, Problems& problems);

/// What it adds is of no concern; its kind must be known.
void read_post_processor(JsonReader& file, Problems& problems);

}  // namespace trireme::data
