// config.json of a Hugging Face model directory as a TransformerConfig, and back. Two generations
// are read and written: transformers 4 has rope_theta, rope_scaling and torch_dtype, transformers 5
// rope_parameters and dtype. A file of the second alone is read wrong, without a word, by
// transformers 4.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/models/transformer_config.h"

#include "runtime/core/json/json.h"

namespace trireme::interop {

/// Sequences longer than this are computed in another way there.
struct LengthLimit {
  Index tokens;
  std::string reason;  // "sliding_window 4096"
};

struct HfConfig {
  std::string model_type;   // "llama"
  TransformerConfig model;  // its seq_length: as long as the limits below and first training allow
  std::string dtype;        // type of the weights, "bfloat16"; "": the file does not say
  Index max_positions = 0;  // longest sequence that the file allows
  std::vector<LengthLimit> limits;
  std::vector<std::string> notes;     // what is not taken over, one sentence each
  std::vector<std::string> not_used;  // keys that change nothing here
  Json json;                          // the whole file
};

/// "gpt2", "llama", "mistral", "qwen2", "qwen3".
std::vector<std::string> hf_model_types();
/// The class of transformers, which "architectures" names. `model_type`: one of these.
std::string causal_model_of(const std::string& model_type);

/// The text of a config.json. Throws: Error when it cannot be read, or has more than 16 MiB.
std::string hf_config_text(const std::string& path);
/// Adds a sentence to `problems` for each thing that is not understood: the key, its value and what
/// would be right. The result means something only if there is none.
HfConfig parse_hf_config(std::string_view text, std::vector<std::string>& problems);
/// Parses a file. Throws: Error with all problems, a line each, behind the path.
HfConfig read_hf_config(const std::string& path);

/// Returns the length in tokens.
Index longest_sequence(const HfConfig& config);
/// Returns what is wrong with samples of `seq_length` tokens, a sentence each.
std::vector<std::string> length_problems(const HfConfig& config, Index seq_length);

/// Returns what is wrong with the length that is given for training the model of `source`
/// ("--load-hf DIR"); 0: none. The length decides on time and memory, and models allow very long
/// ones: it is given, and never taken from the file. Positions beyond the table of a GPT-2 are
/// checked with all options.
std::vector<std::string> training_length_problems(const HfConfig& config, const std::string& source,
                                                  Index given);

struct HfOutput {
  std::string model_type = {};  // "mistral"; empty: the first family that has these options
  std::string dtype = "float32";
  Index max_positions = 0;     // 0: as long as the scaling reaches, or seq_length
  const Json* base = nullptr;  // the file that the model came from: its other keys survive
  std::optional<Index> bos = {}, eos = {};  // without `base`; none: null
};
/// The file that both generations read. Throws: Error when no family has these options, with what
/// is in the way, or when `base` is another model.
Json hf_config_of(const TransformerConfig& model, const HfOutput& output);

}  // namespace trireme::interop
