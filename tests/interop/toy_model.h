// A small model directory of Hugging Face with random weights.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/interop/hf_config.h"
#include "runtime/interop/names.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_safetensors.h"

namespace trireme::test {

inline const std::string gpt2_config =
    R"({"model_type":"gpt2","vocab_size":37,"n_embd":32,"n_layer":2,"n_head":4,"n_positions":24})";
inline const std::string llama_config =
    R"({"model_type":"llama","vocab_size":37,"hidden_size":32,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":48,)"
    R"("max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000.0,"note":"kept"})";

/// A model of one layer, with more keys.
inline std::string config_of(const std::string& type, const std::string& more) {
  return R"({"model_type":")" + type +
         R"(","vocab_size":37,"hidden_size":32,"num_hidden_layers":1,"num_attention_heads":4,)"
         R"("num_key_value_heads":2,"intermediate_size":48,"max_position_embeddings":64)" +
         more + "}";
}
inline const std::string qwen2_config = config_of("qwen2", R"(,"tie_word_embeddings":true)");
inline const std::string qwen3_config = config_of("qwen3", R"(,"head_dim":16)");
inline const std::string mistral_config = config_of("mistral", R"(,"sliding_window":null)");

/// Of a norm: its weights are near 1, or the gradients before it would vanish.
inline bool is_gain(const std::string& name) {
  return name.ends_with(".weight") &&
         (name.find("norm") != std::string::npos || name.find("ln_") != std::string::npos);
}

/// The tensors of the model that `config` describes, by name.
inline std::vector<RawTensor> toy_model(const std::string& config, const std::string& type) {
  std::vector<std::string> problems;
  const interop::HfConfig parsed = interop::parse_hf_config(config, problems);
  if (!problems.empty()) throw std::runtime_error(problems.front());
  std::map<std::string, RawTensor> tensors;
  unsigned seed = 1;
  for (const interop::HfView& view : interop::hf_views(parsed.model_type, parsed.model))
    if (!tensors.contains(view.hf))
      tensors[view.hf] = random_tensor(
          view.hf, type, std::vector<long>(view.hf_shape.begin(), view.hf_shape.end()), seed++,
          is_gain(view.hf) ? 1.0f : 0.0f);
  std::vector<RawTensor> all;
  for (auto& [name, tensor] : tensors) all.push_back(std::move(tensor));
  return all;
}

inline RawTensor& tensor_called(std::vector<RawTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const RawTensor& tensor) { return tensor.name == name; });
  if (found == tensors.end()) throw std::runtime_error("no tensor " + name);
  return *found;
}

/// In one file, or in two with an index.
inline void write_model(const ScratchDirectory& folder, const std::string& config,
                        const std::vector<RawTensor>& tensors, int files = 1) {
  folder.write("config.json", config);
  if (files == 1) {
    folder.write("model.safetensors", safetensors_of(tensors));
    return;
  }
  const auto middle = tensors.begin() + static_cast<std::ptrdiff_t>(tensors.size() / 2);
  folder.write("a.safetensors", safetensors_of({tensors.begin(), middle}));
  folder.write("b.safetensors", safetensors_of({middle, tensors.end()}));
  std::vector<std::pair<std::string, std::string>> index;
  for (auto each = tensors.begin(); each != tensors.end(); ++each)
    index.emplace_back(each->name, each < middle ? "a.safetensors" : "b.safetensors");
  folder.write("model.safetensors.index.json", index_of(index));
}

/// The model that `config` describes, of a type whose tensors are not fused, in bf16 and one file
/// of holes: zeros, which take no disk. Returns: the number of its parameters.
inline Index write_hollow_model(const ScratchDirectory& folder, const std::string& config) {
  std::vector<std::string> problems;
  const interop::HfConfig parsed = interop::parse_hf_config(config, problems);
  if (!problems.empty()) throw std::runtime_error(problems.front());
  safetensors::Header header;
  Index end = 0;
  for (const interop::HfView& view : interop::hf_views(parsed.model_type, parsed.model)) {
    const Index begin = end;
    end += view.hf_shape.count() * 2;
    header.tensors.push_back({view.hf, "BF16", view.hf_shape, begin, end});
  }
  folder.write("config.json", config);
  const std::string text = safetensors::header_text(header);
  std::filesystem::resize_file(folder.write(safetensors::single_file_name, text),
                               text.size() + static_cast<std::size_t>(end));
  return end / 2;
}

}  // namespace trireme::test
