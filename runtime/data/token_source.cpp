#include "trireme/data/token_source.h"

#include <fmt/format.h>

#include "trireme/core/random.h"
#include "trireme/data/sidecar.h"

#include "runtime/core/parse_number.h"
#include "runtime/data/part_content.h"
#include "runtime/data/permutation.h"

namespace trireme {

using namespace data;

TokenSource::TokenSource(std::shared_ptr<const TokenFile> file, TokenRange range,
                         const TokenOptions& options, std::string name)
    : file_(std::move(file)),
      range_(range),
      options_(options),
      name_(std::move(name)),
      fingerprint_(fingerprint(*file_)),
      bytes_per_token_(bytes_per_token(*file_)) {
  require(options.sequence_length >= 1 && options.vocabulary >= 1, "sequence length ",
          options.sequence_length, " and vocabulary ", options.vocabulary, " must be at least 1");
  epoch_samples_ = (range.count() - 1) / options.sequence_length;
  require(range.count() > options.sequence_length, file_->prefix(), ": its part '", name_, "' has ",
          range.count(), " tokens; a sample takes ", options.sequence_length + 1,
          " (the sequence length and one more)");
}

Index TokenSource::fill(Index sample, std::span<const Tensor> out) {
  require(sample >= 0, "sample ", sample);
  require(out.size() == 2, "token data has the inputs tokens and targets; the model declares ",
          out.size(), " inputs");
  const Index epoch = sample / epoch_samples_;
  const Random random = random_for(options_.seed, name_, static_cast<std::uint64_t>(epoch));
  const Index place = Permutation(epoch_samples_, random.key)(sample % epoch_samples_);
  const Index first = range_.begin + place * options_.sequence_length;
  for (std::size_t i = 0; i < 2; ++i) {
    if (out[i].data == nullptr) continue;
    require(out[i].count() == options_.sequence_length, i == 0 ? "tokens" : "targets",
            " of one sample have the shape ", out[i].shape, "; the data has sequences of ",
            options_.sequence_length);
    const std::span row(out[i].as<std::int32_t>(),
                        static_cast<std::size_t>(options_.sequence_length));
    file_->read(first + static_cast<Index>(i), row, options_.vocabulary);
  }
  return options_.sequence_length;
}

std::vector<SourcePosition> TokenSource::positions(Index samples) const {
  return {{str(file_->prefix(), " ", name_), samples}};
}

std::vector<std::pair<std::string, std::string>> TokenSource::identity() const {
  std::vector<std::pair<std::string, std::string>> all{
      {name_ + " tokens", str(range_.begin, " to ", range_.end, " of ", file_->tokens())},
      {name_ + " content", fmt::format("{:016x}", fingerprint_)},
      {name_ + " sequence length", str(options_.sequence_length)}};
  if (!options_.tokenizer.empty()) all.emplace_back(tokenizer_fact, options_.tokenizer);
  return all;
}

std::string TokenSource::file_of(const std::string& fact) const {
  if (fact == tokenizer_fact && read_sidecar(file_->prefix())) return file_->prefix() + ".json";
  return fact == name_ + " tokens" || fact == name_ + " content" ? file_->prefix() + ".bin" : "";
}

std::vector<WeightedPath> parse_data_path(const std::vector<std::string>& values) {
  if (values.size() == 1) return {{1, values.front()}};
  const auto fail = [] {
    throw Error(
        "--data-path takes one PREFIX, or pairs WEIGHT PREFIX WEIGHT PREFIX ... with weights > "
        "0");
  };
  if (values.empty() || values.size() % 2 != 0) fail();
  std::vector<WeightedPath> paths;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const auto weight = parse_number<double>(values[i]);
    if (!weight || !(*weight > 0)) fail();
    paths.push_back({*weight, values[i + 1]});
  }
  return paths;
}

namespace {
// One part over all files. Each file of a blend has a name of its own, so equal files are shuffled
// differently.
TokenPart open_part(Part part, const std::vector<std::shared_ptr<const TokenFile>>& files,
                    const std::vector<WeightedPath>& paths, const Split& split,
                    const TokenOptions& options) {
  const auto p = static_cast<std::size_t>(part);
  if (split.weights[p] == 0) return {nullptr, str("--split has 0 for '", name(part), "'")};
  std::vector<std::unique_ptr<DataSource>> sources;
  std::vector<double> weights;
  std::vector<TokenPart::Content> contents;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const TokenRange range = split_tokens(*files[i], split)[p];
    if (range.count() <= options.sequence_length)
      return {nullptr, str(files[i]->prefix(), ": its part '", name(part), "' has ", range.count(),
                           " tokens; a sample takes ", options.sequence_length + 1,
                           "; use more data, a larger share in --split, or a shorter "
                           "--seq-length")};
    const std::string stream = i == 0 ? name(part) : str(name(part), "/", i);
    auto source = std::make_unique<TokenSource>(files[i], range, options, stream);
    contents.push_back(content_of(*files[i], range, source->epoch_samples()));
    sources.push_back(std::move(source));
    weights.push_back(paths[i].weight);
  }
  if (sources.size() == 1) return {std::move(sources.front()), "", std::move(contents)};
  return {std::make_unique<BlendedSource>(std::move(sources), weights), "", std::move(contents)};
}
}  // namespace

std::array<TokenPart, 3> open_token_parts(const std::vector<WeightedPath>& paths,
                                          const Split& split, const TokenOptions& options) {
  require(!paths.empty(), "no data: open_token_parts was given no paths");
  std::vector<std::shared_ptr<const TokenFile>> files;
  std::vector<std::string> prefixes;
  for (const WeightedPath& path : paths) {
    files.push_back(std::make_shared<const TokenFile>(path.prefix));
    prefixes.push_back(path.prefix);
  }
  TokenOptions with_tokenizer = options;
  if (const std::string found = common_tokenizer(prefixes); !found.empty())
    with_tokenizer.tokenizer = found;
  std::array<TokenPart, 3> parts;
  for (const Part part : {Part::train, Part::valid, Part::test})
    parts[static_cast<std::size_t>(part)] = open_part(part, files, paths, split, with_tokenizer);
  return parts;
}

}  // namespace trireme
