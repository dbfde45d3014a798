#include "trireme/data/token_sweep.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/data/sidecar.h"

#include "runtime/data/part_content.h"

namespace trireme {

using namespace data;

namespace {
constexpr std::int32_t no_target = -1;  // the loss counts no negative one
}  // namespace

TokenSweep::TokenSweep(std::shared_ptr<const TokenFile> file, TokenRange range,
                       const TokenOptions& options)
    : file_(std::move(file)),
      range_(range),
      length_(options.sequence_length),
      vocabulary_(options.vocabulary),
      targets_(range.count() - 1),
      fingerprint_(fingerprint(*file_)),
      bytes_per_token_(bytes_per_token(*file_)),
      tokenizer_(options.tokenizer) {
  require(length_ >= 1 && vocabulary_ >= 1, "sequence length ", length_, " and vocabulary ",
          vocabulary_, " must be at least 1");
  require(targets_ >= 1, file_->prefix(), ": ", range.count(),
          range.count() == 1 ? " token" : " tokens", "; a prediction takes 2");
}

Index TokenSweep::fill(Index sample, std::span<const Tensor> out) {
  require(sample >= 0, "sample ", sample);
  require(out.size() == 2, "token data has the inputs tokens and targets; the model declares ",
          out.size(), " inputs");
  const Index first = sample * length_;
  const Index count = std::clamp<Index>(targets_ - first, 0, length_);
  for (std::size_t i = 0; i < 2; ++i) {
    if (out[i].data == nullptr) continue;
    require(out[i].count() == length_, i == 0 ? "tokens" : "targets",
            " of one sample have the shape ", out[i].shape, "; the data has sequences of ",
            length_);
    const std::span row(out[i].as<std::int32_t>(), static_cast<std::size_t>(length_));
    const std::span filled = row.first(static_cast<std::size_t>(count));
    if (count > 0) file_->read(range_.begin + first + static_cast<Index>(i), filled, vocabulary_);
    std::fill(row.begin() + count, row.end(), i == 0 ? 0 : no_target);
  }
  return count;
}

std::vector<std::pair<std::string, std::string>> TokenSweep::identity() const {
  std::vector<std::pair<std::string, std::string>> all = {
      {"tokens", str(range_.begin, " to ", range_.end, " of ", file_->tokens())},
      {"content", fmt::format("{:016x}", fingerprint_)},
      {"sequence length", str(length_)}};
  if (!tokenizer_.empty()) all.emplace_back(tokenizer_fact, tokenizer_);
  return all;
}

std::string TokenSweep::file_of(const std::string& fact) const {
  if (fact == tokenizer_fact && read_sidecar(file_->prefix())) return file_->prefix() + ".json";
  return fact == "tokens" || fact == "content" ? file_->prefix() + ".bin" : "";
}

std::vector<SweptPart> open_swept_parts(const std::vector<WeightedPath>& paths, const Split& split,
                                        Part part, const TokenOptions& options) {
  const auto p = static_cast<std::size_t>(part);
  require(split.weights[p] > 0, "--split has 0 for '", name(part), "'");
  std::vector<std::string> prefixes;
  for (const WeightedPath& path : paths) prefixes.push_back(path.prefix);
  TokenOptions with_tokenizer = options;
  if (const std::string found = common_tokenizer(prefixes); !found.empty())
    with_tokenizer.tokenizer = found;
  std::vector<SweptPart> parts;
  for (const WeightedPath& path : paths) {
    auto file = std::make_shared<const TokenFile>(path.prefix);
    const TokenRange range = split_tokens(*file, split)[p];
    require(range.count() >= 2, path.prefix, ": its part '", name(part), "' has ", range.count(),
            range.count() == 1 ? " token" : " tokens", "; a prediction takes 2");
    auto source = std::make_unique<TokenSweep>(file, range, with_tokenizer);
    const Index samples = source->samples();
    parts.push_back({path, content_of(*file, range, samples), std::move(source)});
  }
  return parts;
}

}  // namespace trireme
