// The texts that --generate continues.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/options/gpt_options.h"

namespace trireme {

struct Prompt {
  std::string text;
  std::vector<std::int32_t> tokens;  // one or more, at most a sequence
};

/// That of --prompt, or those of --prompts: a file with one a line, or, where its name ends in
/// .jsonl, .ndjson or .json, a JSON string a line or an object with one named "prompt". A byte
/// order mark, carriage returns at line ends and empty lines of JSON are passed over. Adds what is
/// wrong with them to `problems`, with file and line. `encoder`: GptData::encoder; null: there are
/// no prompts.
std::vector<Prompt> open_prompts(const GptOptions& gpt, const data::TextEncoder* encoder,
                                 Problems& problems);

}  // namespace trireme
