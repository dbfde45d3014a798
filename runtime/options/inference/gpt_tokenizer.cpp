#include "runtime/options/inference/gpt_tokenizer.h"

#include <filesystem>

#include "trireme/data/tokenizer.h"

namespace trireme::options {
namespace {

constexpr const char* file_name = "tokenizer.json";

bool has_tokenizer(const std::string& directory) {
  std::error_code ignored;
  return !directory.empty() && std::filesystem::exists(directory + "/" + file_name, ignored);
}

/// "tokenizer 00ab… (corpus.json)"
std::string shown(const UsedTokenizer& used) {
  const std::string name =
      used.hash == Sidecar::bytes ? "bytes" : str("those of tokenizer ", used.hash);
  return name + (used.file.empty() ? "" : str(" (", used.file, ")"));
}

std::string on_one_line(std::string text) {
  const std::string line_end = "\n  ";
  for (std::size_t at; (at = text.find(line_end)) != std::string::npos;)
    text.replace(at, line_end.size(), " ");
  return text;
}

/// Data and generated text must have the tokenizer of the model. `reads`: data has one.
void check_model(const std::string& load_hf, bool reads, GptData& data, Problems& problems) {
  if (!has_tokenizer(load_hf) || data.tokenizer.hash.empty()) return;
  const std::string file = load_hf + "/" + file_name;
  try {
    const std::string hash = data::Tokenizer::load(load_hf).hash();
    if (hash != data.tokenizer.hash)
      problems.add("--load-hf ", load_hf, ": tokens of this job are ", shown(data.tokenizer),
                   ", and those of the model of tokenizer ", hash, " (", file, "); ",
                   reads ? "prepare the text with" : "give", " --tokenizer ", load_hf);
  } catch (const Error& error) {
    data.warnings.push_back(str("--load-hf ", load_hf, ": its tokenizer cannot be compared with ",
                                "that of this job: ", on_one_line(error.what())));
  }
}

}  // namespace

std::string tokenizer_to_give(const Options& options, const std::string& hash) {
  const std::string& load = options.checkpoint.load;
  for (const std::string& directory :
       {options.checkpoint.load_hf, load.empty() ? load : load + "/hf"})
    try {
      if (has_tokenizer(directory) &&
          (hash.empty() || data::Tokenizer::load(directory).hash() == hash))
        return "; that of the model is --tokenizer " + directory;
    } catch (const Error&) {  // it is not the one that is needed
    }
  return "";
}

std::shared_ptr<const data::TextEncoder> open_encoder(const Options& options, const GptOptions& gpt,
                                                      Problems& problems) {
  if (gpt.generate == 0 || options.plan_only) return nullptr;
  if (gpt.tokenizer.empty()) return data::byte_encoder();
  try {
    std::shared_ptr<const data::TextEncoder> encoder = data::tokenizer_encoder(gpt.tokenizer);
    if (gpt.model.vocab_size < encoder->vocabulary())
      problems.add("--vocab-size ", gpt.model.vocab_size, " is less than the ",
                   encoder->vocabulary(), " tokens of --tokenizer ", gpt.tokenizer,
                   "; the model must have them all");
    return encoder;
  } catch (const Error& error) {
    problems.add_lines("--tokenizer: ", error.what());
    return nullptr;
  }
}

void settle_tokenizer(const Options& options, const GptOptions& gpt, const UsedTokenizer& read,
                      GptData& data, Problems& problems) {
  const bool is_missing = gpt.tokenizer.empty() && gpt.model.vocab_size != 256;
  data.tokenizer = read;
  if (data.encoder && read.hash.empty() && !is_missing)
    data.tokenizer = {data.encoder->hash(), gpt.tokenizer};
  check_model(options.checkpoint.load_hf, !read.hash.empty(), data, problems);
  if (!data.encoder || is_missing) return;  // check_generation() names it
  const bool fits = data.encoder->hash() == data.tokenizer.hash;
  if (gpt.tokenizer.empty()) {
    if (!fits)
      problems.add("--generate ", gpt.generate, " needs --tokenizer PATH: the tokens of the data ",
                   "are ", shown(read), tokenizer_to_give(options, read.hash));
    return;
  }
  if (!fits)
    problems.add("--tokenizer ", gpt.tokenizer, " is ", data.encoder->hash(),
                 ", but the tokens of the data are ", shown(read), "; give the one that made them",
                 tokenizer_to_give(options, read.hash));
  const std::optional<Index> eod = data.encoder->eod();
  data.description.push_back(
      str("--tokenizer ", gpt.tokenizer, ": ", data.encoder->vocabulary(), " tokens; ",
          eod ? str("texts end at token ", *eod) : "none of them ends a text"));
}

}  // namespace trireme::options
