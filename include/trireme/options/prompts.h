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
/// .jsonl, a JSON string a line or an object with one named "prompt". Adds what is wrong with them
/// to `problems`, with file and line. None without --generate.
std::vector<Prompt> open_prompts(const Options& options, const GptOptions& gpt, Problems& problems);

}  // namespace trireme
