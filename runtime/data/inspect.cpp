// Implements inspect (trireme/data/inspect.h).
#include "trireme/data/inspect.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "trireme/core/error.h"

namespace trireme {

namespace {

constexpr Index piece_tokens = 1 << 16;
constexpr std::int64_t tabled_tokens = 1 << 24;
constexpr std::int64_t largest_possible = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t most_frequent = 10;

/// "1 document", "2 documents"
std::string counted(Index count, const std::string& what) {
  return str(count, " ", what, count == 1 ? "" : "s");
}

/// How often each token occurs: those that vocabularies have in a table, others one by one.
class Counts {
 public:
  void add(std::int64_t token) {
    if (token < 0 || token >= tabled_tokens) {
      ++others_[token];
      return;
    }
    if (token >= static_cast<Index>(table_.size()))
      table_.resize(static_cast<std::size_t>(token + 1));
    ++table_[static_cast<std::size_t>(token)];
  }
  std::vector<TokenStatistics::Frequent> all() const {
    std::vector<TokenStatistics::Frequent> found;
    for (const auto& [token, count] : others_) found.push_back({token, count});
    for (std::size_t token = 0; token < table_.size(); ++token)
      if (table_[token] > 0) found.push_back({static_cast<Index>(token), table_[token]});
    return found;
  }

 private:
  std::vector<Index> table_;
  std::unordered_map<std::int64_t, Index> others_;
};

void finish(TokenStatistics& statistics, const Counts& counts, Index tokens) {
  statistics.frequent = counts.all();
  statistics.distinct = static_cast<Index>(statistics.frequent.size());
  for (const TokenStatistics::Frequent& each : statistics.frequent) {
    const double share = static_cast<double>(each.count) / static_cast<double>(tokens);
    statistics.entropy_bits -= share * std::log2(share);
  }
  const auto more = [](const auto& a, const auto& b) {
    return a.count != b.count ? a.count > b.count : a.token < b.token;
  };
  std::sort(statistics.frequent.begin(), statistics.frequent.end(), more);
  if (statistics.frequent.size() > most_frequent) statistics.frequent.resize(most_frequent);
}

std::optional<TokenStatistics> scan_tokens(const TokenFile& file) {
  if (file.tokens() == 0) return std::nullopt;
  TokenStatistics statistics;
  Counts counts;
  std::vector<std::int64_t> piece;
  for (Index first = 0; first < file.tokens(); first += piece_tokens) {
    piece.resize(static_cast<std::size_t>(std::min(piece_tokens, file.tokens() - first)));
    file.read(first, piece);
    if (first == 0) statistics.smallest = statistics.largest = piece.front();
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const std::int64_t token = piece[i];
      const Index position = first + static_cast<Index>(i);
      if (token < statistics.smallest) {
        statistics.smallest = token;
        statistics.smallest_position = position;
      }
      if (token > statistics.largest) {
        statistics.largest = token;
        statistics.largest_position = position;
      }
      counts.add(token);
    }
  }
  finish(statistics, counts, file.tokens());
  return statistics;
}

}  // namespace

Inspection inspect(const std::string& prefix, Scan scan) {
  const TokenFile file(prefix);
  Inspection result{prefix, file.type(), file.sequences(), file.documents(), file.tokens(), 0, 0,
                    {},     {}};
  result.sidecar = read_sidecar(file);
  for (Index d = 0; d < file.documents(); ++d) {
    const Index length = file.document_begin(d + 1) - file.document_begin(d);
    result.shortest_document = d == 0 ? length : std::min(result.shortest_document, length);
    result.longest_document = std::max(result.longest_document, length);
  }
  if (scan == Scan::every_token) result.statistics = scan_tokens(file);
  return result;
}

std::string impossible_tokens(const Inspection& x) {
  if (!x.statistics) return "";
  const TokenStatistics& s = *x.statistics;
  const bool negative = s.smallest < 0;
  if (!negative && s.largest <= largest_possible) return "";
  return fmt::format(
      "{}.bin: token {} at position {} is in no vocabulary: tokens are whole numbers from 0 to {}",
      x.prefix, negative ? s.smallest : s.largest,
      negative ? s.smallest_position : s.largest_position, largest_possible);
}

namespace {
std::string describe(const Sidecar& s) {
  const auto token = [](const char* what, const std::optional<Index>& value, bool added) {
    return value ? fmt::format(", {} {}{}", what, *value, added ? " (added)" : "") : std::string();
  };
  return fmt::format(
      "tokenizer {} of {} tokens{}{}\n{} of text, {:.3f} a token{}\n", s.tokenizer, s.vocabulary,
      token("bos", s.bos, s.prepend_bos), token("eod", s.eod, s.append_eod),
      counted(s.text_bytes, "byte"), s.bytes_per_token(),
      s.empty_documents == 0
          ? ""
          : "; " + counted(s.empty_documents, "document") + " without text left out");
}
}  // namespace

std::string describe(const Inspection& x) {
  std::string text = fmt::format(
      "{}: {} tokens of type {} in {} ({})\n"
      "shortest document {} tokens, longest {}\n",
      x.prefix, x.tokens, name(x.type), counted(x.documents, "document"),
      counted(x.sequences, "sequence"), x.shortest_document, x.longest_document);
  if (x.sidecar) text += describe(*x.sidecar);
  if (!x.statistics) return text;
  const TokenStatistics& s = *x.statistics;
  text += fmt::format(
      "smallest token {} (position {}), largest {} (position {}), {} different ones\n"
      "entropy of the frequencies {:.3f} bits a token\n"
      "most frequent:",
      s.smallest, s.smallest_position, s.largest, s.largest_position, s.distinct, s.entropy_bits);
  for (const TokenStatistics::Frequent& f : s.frequent)
    text += fmt::format(" {} ({:.2f} %)", f.token,
                        100 * static_cast<double>(f.count) / static_cast<double>(x.tokens));
  return text + "\n";
}

}  // namespace trireme
