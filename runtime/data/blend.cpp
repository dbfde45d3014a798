// Implements BlendedSource (trireme/data/token_source.h).
// BlendedSource: the order of sources repeats in blocks, so a sample's source is a look-up.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/data/sidecar.h"
#include "trireme/data/token_source.h"

namespace trireme {

namespace {

constexpr Index largest_block = 65536;

// Whole samples of each source in a block of `size`: the shares, rounded so that they add up
// (largest remainder).
std::vector<Index> quotas(const std::vector<double>& shares, Index size) {
  std::vector<Index> quota;
  for (const double share : shares)
    quota.push_back(static_cast<Index>(std::floor(share * static_cast<double>(size) + 1e-9)));
  for (Index left = size - std::accumulate(quota.begin(), quota.end(), Index{0}); left > 0;
       --left) {
    std::size_t neediest = 0;
    const auto lacks = [&](std::size_t i) {
      return shares[i] * static_cast<double>(size) - static_cast<double>(quota[i]);
    };
    for (std::size_t i = 1; i < shares.size(); ++i)
      if (lacks(i) > lacks(neediest)) neediest = i;
    ++quota[neediest];
  }
  return quota;
}

// The smallest block in which all shares are whole numbers, or the largest.
Index block_size(const std::vector<double>& shares) {
  for (Index size = 1; size < largest_block; ++size) {
    bool whole = true;
    for (const double share : shares) {
      const double count = share * static_cast<double>(size);
      whole = whole && count > 0.5 &&
              std::abs(count - std::round(count)) < 1e-9 * static_cast<double>(size);
    }
    if (whole) return size;
  }
  return largest_block;
}

// Quota method: of the sources that are behind (count < share so far), the one with the largest
// quota / (count + 1). Balinski and Young prove that every count then stays within its share
// rounded down or up.
std::size_t next_source(const std::vector<Index>& quota, const std::vector<Index>& count,
                        Index turn, Index size) {
  std::size_t best = quota.size();
  for (std::size_t i = 0; i < quota.size(); ++i) {
    if (count[i] * size >= quota[i] * (turn + 1)) continue;
    if (best == quota.size() || quota[i] * (count[best] + 1) > quota[best] * (count[i] + 1))
      best = i;
  }
  return best;
}

}  // namespace

BlendedSource::BlendedSource(std::vector<std::unique_ptr<DataSource>> sources,
                             const std::vector<double>& weights)
    : sources_(std::move(sources)) {
  require(!weights.empty() && sources_.size() == weights.size(), sources_.size(), " sources with ",
          weights.size(), " weights");
  double sum = 0;
  for (const double weight : weights) {
    require(weight > 0 && std::isfinite(weight), "weight ", weight, " of a data source is not > 0");
    sum += weight;
  }
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(weight / sum);
  const Index size = block_size(shares);
  quota_ = quotas(shares, size);
  for (std::size_t i = 0; i < weights.size(); ++i)
    require(quota_[i] > 0, "weight ", weights[i], " of data source ", i, " is less than 1/", size,
            " of all weights, ", sum, "; leave it out or raise it");
  std::vector<Index> count(quota_.size(), 0);
  for (Index turn = 0; turn < size; ++turn) {
    const std::size_t source = next_source(quota_, count, turn, size);
    block_.push_back({static_cast<int>(source), count[source]++});
  }
}

BlendedSource::Pick BlendedSource::pick(Index sample) const {
  require(sample >= 0, "sample ", sample);
  const auto size = static_cast<Index>(block_.size());
  const Turn& turn = block_[static_cast<std::size_t>(sample % size)];
  return {turn.source, sample / size * quota_[static_cast<std::size_t>(turn.source)] + turn.before};
}

Index BlendedSource::fill(Index sample, std::span<const Tensor> out) {
  const Pick from = pick(sample);
  return sources_[static_cast<std::size_t>(from.source)]->fill(from.sample, out);
}

std::vector<std::pair<std::string, std::string>> BlendedSource::identity() const {
  std::string shares;
  for (const Index quota : quota_) shares += str(shares.empty() ? "" : " : ", quota);
  std::vector<std::pair<std::string, std::string>> all{{"blend", shares}};
  for (const auto& source : sources_)
    for (auto& fact : source->identity())
      if (fact.first != tokenizer_fact || std::find(all.begin(), all.end(), fact) == all.end())
        all.push_back(std::move(fact));
  return all;
}

std::string BlendedSource::file_of(const std::string& fact) const {
  for (const auto& source : sources_)
    if (std::string file = source->file_of(fact); !file.empty()) return file;
  return {};
}

std::optional<double> BlendedSource::bytes_per_target() const {
  double bytes = 0, turns = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const std::optional<double> of_one = sources_[i]->bytes_per_target();
    if (!of_one) return std::nullopt;
    bytes += static_cast<double>(quota_[i]) * *of_one;
    turns += static_cast<double>(quota_[i]);
  }
  return bytes / turns;
}

std::vector<SourcePosition> BlendedSource::positions(Index samples) const {
  const auto size = static_cast<Index>(block_.size());
  std::vector<Index> read;
  for (const Index quota : quota_) read.push_back(samples / size * quota);
  for (Index i = 0; i < samples % size; ++i)
    ++read[static_cast<std::size_t>(block_[static_cast<std::size_t>(i)].source)];
  std::vector<SourcePosition> all;
  for (std::size_t i = 0; i < sources_.size(); ++i)
    for (SourcePosition& position : sources_[i]->positions(read[i]))
      all.push_back(std::move(position));
  return all;
}

}  // namespace trireme
