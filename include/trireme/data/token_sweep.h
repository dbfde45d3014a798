// TokenSweep: the tokens of a part of a file, each once and in order, for an evaluation of all of
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/data/token_source.h"

namespace trireme {

/// One part of one file. Graph inputs: as TokenSource. Every token but the first of the part is a
/// target exactly once. The part is cut into samples as a TokenSource cuts it, without an order of
/// its own, and what is left makes a last, shorter one: its rows end in token 0 and in targets that
/// do not count. Samples after it have no target.
class TokenSweep final : public DataSource {
 public:
  /// Throws: Error when the range has fewer than two tokens. The seed of `options` has no effect.
  TokenSweep(std::shared_ptr<const TokenFile> file, TokenRange range, const TokenOptions& options);
  Index samples() const { return (targets_ + length_ - 1) / length_; }
  Index targets() const { return targets_; }
  Index fill(Index sample, std::span<const Tensor> out) override;
  std::vector<std::pair<std::string, std::string>> identity() const override;
  std::string file_of(const std::string& fact) const override;
  std::optional<double> bytes_per_target() const override { return bytes_per_token_; }

 private:
  std::shared_ptr<const TokenFile> file_;
  TokenRange range_;
  Index length_, vocabulary_, targets_;
  std::uint64_t fingerprint_;              // hash of samples of the whole file
  std::optional<double> bytes_per_token_;  // average of the whole file
  std::string tokenizer_;
};

/// One part of a file of a blend, to evaluate.
struct SweptPart {
  WeightedPath path;
  TokenPart::Content content;
  std::unique_ptr<TokenSweep> source;
};
/// Opens all files. TokenOptions::tokenizer as for open_token_parts. Throws: Error when a file is
/// damaged, they are of different tokenizers, or one has fewer than two tokens in this part.
std::vector<SweptPart> open_swept_parts(const std::vector<WeightedPath>& paths, const Split& split,
                                        Part part, const TokenOptions& options);

}  // namespace trireme
