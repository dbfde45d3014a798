// Token sources: samples of a fixed number of tokens for language models. Sample n of a run depends
// on (data, split, sequence length, seed, n) only.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/data/source.h"
#include "trireme/data/split.h"
#include "trireme/data/token_file.h"

namespace trireme {

struct TokenOptions {
  Index sequence_length = 0;
  Index vocabulary = 0;  // tokens must lie in [0, vocabulary)
  std::uint64_t seed = 0;
  std::string tokenizer = "";  // as Sidecar::tokenizer; "": not known
};

/// One part of one file. Graph inputs: tokens and targets, rows of sequence_length i32 each; each
/// target is the next token. The part is cut, across documents, into samples of sequence_length + 1
/// tokens that overlap by one; every epoch visits each of them once, in its own order.
class TokenSource final : public DataSource {
 public:
  /// `name`: of the stream ("train"); streams with different names are shuffled differently.
  /// Throws: Error when the range has fewer than sequence_length + 1 tokens.
  TokenSource(std::shared_ptr<const TokenFile> file, TokenRange range, const TokenOptions& options,
              std::string name);
  /// Samples in one epoch.
  Index epoch_samples() const { return epoch_samples_; }
  Index fill(Index sample, std::span<const Tensor> out) override;
  std::vector<SourcePosition> positions(Index samples) const override;
  std::vector<std::pair<std::string, std::string>> identity() const override;
  std::string file_of(const std::string& fact) const override;
  std::optional<double> bytes_per_target() const override { return bytes_per_token_; }

 private:
  std::shared_ptr<const TokenFile> file_;
  TokenRange range_;
  TokenOptions options_;
  std::string name_;
  Index epoch_samples_;
  std::uint64_t fingerprint_;              // hash of samples of the whole file
  std::optional<double> bytes_per_token_;  // average of the whole file
};

/// Several sources mixed by weight. Among the first n samples, source i has its share n * weight_i
/// of them rounded down or up, for every n. (Quota method: Balinski and Young, Amer. Math. Monthly
/// 82, 1975.) Weights are used as exact fractions of a block, found up to 1/65536 of the sum, so
/// finding the source of a sample takes one look-up.
class BlendedSource final : public DataSource {
 public:
  /// Throws: Error when a weight is not > 0, or too small relative to the others.
  BlendedSource(std::vector<std::unique_ptr<DataSource>> sources,
                const std::vector<double>& weights);
  Index fill(Index sample, std::span<const Tensor> out) override;
  std::vector<SourcePosition> positions(Index samples) const override;
  std::vector<std::pair<std::string, std::string>> identity() const override;
  std::string file_of(const std::string& fact) const override;
  /// Returns the bytes of a token drawn from the blend; none unless it is known of each source.
  std::optional<double> bytes_per_target() const override;
  /// Which source global sample `sample` comes from, and which of its samples it is.
  struct Pick {
    int source;
    Index sample;
  };
  Pick pick(Index sample) const;

 private:
  struct Turn {
    int source;
    Index before;  // turns of the same source earlier in the block
  };
  std::vector<std::unique_ptr<DataSource>> sources_;
  std::vector<Index> quota_;  // samples of each source in one block
  std::vector<Turn> block_;
};

struct WeightedPath {
  double weight = 1;
  std::string prefix;
};
/// The values of `--data-path`: one prefix, or pairs of weight and prefix. Throws: Error that shows
/// both forms.
std::vector<WeightedPath> parse_data_path(const std::vector<std::string>& values);

/// One part of a data set; `source` is null where the part is empty or too short, and `absent` says
/// why.
struct TokenPart {
  /// What it contains of one file. Documents are counted from 1.
  struct Content {
    std::string prefix;
    TokenType type = TokenType::u8;
    Index tokens = 0, samples = 0;  // counts of one epoch
    Index first_document = 0, last_document = 0, documents_of_file = 0;
  };
  std::unique_ptr<DataSource> source;
  std::string absent;
  std::vector<Content> contents = {};  // in order of the files
};
/// Opens all files and creates the parts train, valid and test. Where sidecars name a tokenizer, it
/// takes the place of TokenOptions::tokenizer. Throws: Error when a file is damaged, or they are of
/// different tokenizers.
std::array<TokenPart, 3> open_token_parts(const std::vector<WeightedPath>& paths,
                                          const Split& split, const TokenOptions& options);

}  // namespace trireme
