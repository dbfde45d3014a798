// Implements GptData (trireme/options/gpt_options.h).
// The data of --data-path and --split as sources of samples.
#include "trireme/data/token_source.h"
#include "trireme/options/gpt_options.h"

namespace trireme {

GptData open_gpt_data(const Options& options, const GptOptions& gpt, Problems& problems) {
  GptData data;
  if (options.train_iters == 0 && options.checkpoint.save.empty()) return data;
  Split split;
  problems.collect([&] { split = parse_split(gpt.split); });
  if (gpt.data_path.empty()) {
    problems.add(
        "--data-path is missing: PREFIX of PREFIX.bin and PREFIX.idx, which 'trireme data prepare "
        "--input FILE... "
        "--output PREFIX' makes from text");
    return data;
  }
  std::vector<WeightedPath> paths;
  try {
    paths = parse_data_path(gpt.data_path);
  } catch (const Error& error) {
    std::string given;
    for (const std::string& word : gpt.data_path) given += " " + word;
    problems.add(error.what(), "; given:", given);
    return data;
  }
  try {
    const TokenOptions tokens{gpt.model.seq_length, gpt.model.vocab_size,
                              static_cast<std::uint64_t>(options.seed)};
    auto parts = open_token_parts(paths, split, tokens);
    TokenPart& train = parts[static_cast<std::size_t>(Part::train)];
    TokenPart& valid = parts[static_cast<std::size_t>(Part::valid)];
    if (!train.source) problems.add("--split ", gpt.split, ": no training data: ", train.absent);
    if (!valid.source && options.eval_interval > 0)
      problems.add("--eval-interval ", options.eval_interval, " with --split ", gpt.split,
                   ": no validation data: ", valid.absent);
    data.train = std::move(train.source);
    if (options.eval_interval > 0) data.valid = std::move(valid.source);
  } catch (const Error& error) {
    problems.add("--data-path: ", error.what());
  }
  return data;
}

std::vector<std::int32_t> byte_tokens(const std::string& text) {
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string byte_text(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += static_cast<char>(token);
  return text;
}

}  // namespace trireme
