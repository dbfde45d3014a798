#include "runtime/options/inference/gpt_tokenizer.h"

#include <filesystem>
#include <functional>
#include <map>

#include <fmt/ranges.h>

#include "trireme/data/token_source.h"
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

/// Hashes of tokenizers. A file has megabytes: each is read once.
class Hashes {
 public:
  void know(const std::string& path, const std::string& hash) { known_[file_of(path)] = hash; }
  /// `path`: a tokenizer.json, or a directory with one. Throws: as Tokenizer::load().
  const std::string& of(const std::string& path) {
    const std::string file = file_of(path);
    auto found = known_.find(file);
    if (found == known_.end())
      found = known_.emplace(file, data::Tokenizer::load(path).hash()).first;
    return found->second;
  }

 private:
  static std::string file_of(const std::filesystem::path& path) {
    std::error_code ignored;
    const bool is_directory = std::filesystem::is_directory(path, ignored);
    return std::filesystem::weakly_canonical(is_directory ? path / file_name : path, ignored)
        .string();
  }
  std::map<std::string, std::string> known_;  // by file
};

/// Data and generated text must have the tokenizer of the model. `reads`: data has one.
void check_model(const std::string& load_hf, bool reads, Hashes& hashes, GptData& data,
                 Problems& problems) {
  if (!has_tokenizer(load_hf) || data.tokenizer.hash.empty()) return;
  const std::string file = load_hf + "/" + file_name;
  try {
    const std::string& hash = hashes.of(load_hf);
    if (hash != data.tokenizer.hash)
      problems.add("--load-hf ", load_hf, ": tokens of this job are ", shown(data.tokenizer),
                   ", and those of the model of tokenizer ", hash, " (", file, "); ",
                   reads ? "prepare the text with" : "give", " --tokenizer ", load_hf,
                   reads ? str(", or, where ", file_name,
                               " differs by added tokens alone that the text does not have, put "
                               "the one that made them in its place")
                         : "");
  } catch (const Error& error) {
    data.warnings.push_back(str("--load-hf ", load_hf, ": its tokenizer cannot be compared with ",
                                "that of this job: ", on_one_line(error.what())));
  }
}

/// The token that ends documents of the data ends texts too. Not the hash of a tokenizer says which
/// one, but tokenizer_config.json beside it. `encoder`: of the tokenizer of the data.
void check_document_end(const GptOptions& gpt, const data::TextEncoder& encoder,
                        Problems& problems) {
  std::vector<std::string> prefixes;
  for (const WeightedPath& path : parse_data_path(gpt.data_path)) prefixes.push_back(path.prefix);
  const std::optional<DocumentEnd> of_data = common_document_end(prefixes);
  const std::optional<Index> eod = encoder.eod();
  if (!of_data || eod == of_data->token) return;
  const std::string here = eod ? str("ends texts at token ", *eod) : "has none that ends a text";
  problems.add("--tokenizer ", gpt.tokenizer, " ", here, ", but documents of the data end with ",
               of_data->token, " (", of_data->file, "); have ", of_data->token,
               " as eos_token in tokenizer_config.json beside ", file_name,
               ", or prepare the text again");
}

/// Of a directory that `is_it`.
std::string tokenizer_to_give(const Options& options,
                              const std::function<bool(const std::string&)>& is_it) {
  const std::string& load = options.checkpoint.load;
  for (const std::string& directory :
       {options.checkpoint.load_hf, load.empty() ? load : load + "/hf"})
    try {
      if (has_tokenizer(directory) && is_it(directory))
        return "; that of the model is --tokenizer " + directory;
    } catch (const Error&) {  // it is not the one that is needed
    }
  return "";
}

}  // namespace

std::string tokenizer_to_give(const Options& options) {
  return tokenizer_to_give(options, [](const std::string&) { return true; });
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
  Hashes hashes;
  if (data.encoder && !gpt.tokenizer.empty()) hashes.know(gpt.tokenizer, data.encoder->hash());
  check_model(options.checkpoint.load_hf, !read.hash.empty(), hashes, data, problems);
  if (!data.encoder || is_missing) return;  // check_generation() names it
  const auto that_of_data = [&](const std::string& directory) {
    return hashes.of(directory) == read.hash;
  };
  const bool fits = data.encoder->hash() == data.tokenizer.hash;
  if (gpt.tokenizer.empty()) {
    if (!fits)
      problems.add("--generate ", gpt.generate, " needs --tokenizer PATH: the tokens of the data ",
                   "are ", shown(read), tokenizer_to_give(options, that_of_data));
    return;
  }
  if (!fits)
    problems.add("--tokenizer ", gpt.tokenizer, " is ", data.encoder->hash(),
                 ", but the tokens of the data are ", shown(read), "; give the one that made them",
                 tokenizer_to_give(options, that_of_data));
  else if (!read.hash.empty())
    problems.collect([&] { check_document_end(gpt, *data.encoder, problems); });
  for (const std::string& warning : data.encoder->warnings()) data.warnings.push_back(warning);
  const std::vector<std::int32_t> stops = data.encoder->stops();
  data.description.push_back(
      str("--tokenizer ", gpt.tokenizer, ": ", data.encoder->vocabulary(), " tokens; ",
          stops.empty() ? std::string("none of them ends a text")
                        : fmt::format("texts end at token {}", fmt::join(stops, " or "))));
}

}  // namespace trireme::options
