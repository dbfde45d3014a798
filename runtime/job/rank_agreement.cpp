#include "runtime/job/rank_agreement.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/comm/agree.h"

#include "runtime/store/checksum.h"

namespace trireme {
namespace {

constexpr char separator = '\x1e';  // gather_lists() takes strings without it

/// The values of one fact, each with the ranks that have it, in the order of the first of them.
using Groups = std::vector<std::pair<std::string, std::vector<int>>>;

Index hash(const std::string& text) {
  return static_cast<Index>(checksum(text.data(), static_cast<Index>(text.size())).low);
}

std::vector<Index> hashes_of(const std::vector<RankFact>& facts) {
  std::vector<Index> all;
  for (const RankFact& fact : facts) all.push_back(hash(fact.name + separator + fact.value));
  return all;
}

Elements elements(std::vector<Index>& numbers) {
  return {numbers.data(), static_cast<Index>(numbers.size()), DType::i64};
}

/// Collective. The largest `value` and the smallest.
std::pair<Index, Index> ends_of(const Host& host, Index value) {
  Index ends[2] = {value, ~value};
  host.all_reduce({ends, 2, DType::i64}, Reduction::max);
  return {ends[0], ~ends[1]};
}

/// Collective. The positions at which any rank differs from rank 0.
std::vector<std::size_t> differing(const Host& host, std::vector<Index> mine) {
  mine.resize(static_cast<std::size_t>(ends_of(host, static_cast<Index>(mine.size())).first), 0);
  std::vector<Index> first = mine, differs(mine.size());
  host.broadcast(elements(first), 0);
  std::transform(mine.begin(), mine.end(), first.begin(), differs.begin(),
                 [](Index a, Index b) { return a == b ? 0 : 1; });
  host.all_reduce(elements(differs), Reduction::max);
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < differs.size(); ++i)
    if (differs[i] != 0) positions.push_back(i);
  return positions;
}

std::string clean(std::string text) {
  std::replace(text.begin(), text.end(), separator, '?');
  return text;
}

/// Long values are shown from where they begin to differ.
void shorten(Groups& groups) {
  constexpr std::size_t longest = 120, before = 20;
  const std::string first = groups.front().first;
  std::size_t common = first.size();
  for (const auto& [value, ranks] : groups) {
    const auto end = std::mismatch(first.begin(), first.end(), value.begin(), value.end()).first;
    common = std::min(common, static_cast<std::size_t>(end - first.begin()));
  }
  for (auto& [value, ranks] : groups) {
    if (value.size() <= longest) continue;
    if (common > before) value = "..." + value.substr(common - before);
    if (value.size() > longest) value = value.substr(0, longest) + "...";
  }
}

/// "rank 0 has 5, ranks 1-3 have 9"
std::string describe_groups(Groups groups) {
  constexpr std::size_t most = 4;
  shorten(groups);
  std::string text;
  for (std::size_t i = 0; i < std::min(most, groups.size()); ++i) {
    const auto& [value, ranks] = groups[i];
    text += fmt::format("{}{} {} {}", i == 0 ? "" : ", ", describe_ranks(ranks),
                        ranks.size() == 1 ? "has" : "have", value.empty() ? "nothing" : value);
  }
  if (groups.size() > most) text += fmt::format(", others have {} more", groups.size() - most);
  return text;
}

/// `texts`: name, value and note of one fact, of all ranks.
std::string sentence(const std::vector<RankFact>& of_ranks) {
  const std::string& name = of_ranks.front().name;
  const bool same_name = std::all_of(of_ranks.begin(), of_ranks.end(),
                                     [&](const RankFact& fact) { return fact.name == name; });
  Groups groups;
  std::vector<std::string> notes;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const RankFact& fact = of_ranks[rank];
    const std::string value = same_name            ? fact.value
                              : fact.name.empty()  ? ""
                              : fact.value.empty() ? fact.name
                                                   : fact.name + " " + fact.value;
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == value; });
    if (found == groups.end()) {
      found = groups.insert(groups.end(), {value, {}});
      notes.push_back(fact.note);
    }
    found->second.push_back(static_cast<int>(rank));
  }
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (!notes[i].empty()) groups[i].first += " (" + notes[i] + ")";
  const std::string values = describe_groups(std::move(groups));
  return (same_name ? name + " must be the same on all ranks: " : "all ranks need the same: ") +
         values;
}

}  // namespace

std::vector<std::string> differences_between_ranks(const Host& host,
                                                   const std::vector<RankFact>& mine,
                                                   std::size_t most) {
  const std::vector<Index> hashes = hashes_of(mine);
  const Checksum digest =
      checksum(hashes.data(), static_cast<Index>(hashes.size() * sizeof(Index)));
  const auto [largest, smallest] = ends_of(host, static_cast<Index>(digest.low));
  if (largest == smallest) return {};

  const std::vector<std::size_t> positions = differing(host, hashes);
  const std::size_t named = std::min(most, positions.size());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < named; ++i) {
    const RankFact fact = positions[i] < mine.size() ? mine[positions[i]] : RankFact{};
    for (const std::string* text : {&fact.name, &fact.value, &fact.note})
      texts.push_back(clean(*text));
  }
  const auto all = gather_lists(host, texts);
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < named; ++i) {
    std::vector<RankFact> of_ranks;
    for (const std::vector<std::string>& rank : all)
      of_ranks.push_back({rank[3 * i], rank[3 * i + 1], rank[3 * i + 2]});
    sentences.push_back(sentence(of_ranks));
  }
  if (positions.size() > named && most > 1)
    sentences.push_back(fmt::format("and {} more that differ", positions.size() - named));
  return sentences;
}

void require_same(const Host& host, const std::vector<RankFact>& mine, std::size_t most) {
  Problems problems;
  for (const std::string& difference : differences_between_ranks(host, mine, most))
    problems.add(difference);
  agree_on(host, problems);
}

std::string describe_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most = 6;  // runs of neighbours
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  std::size_t runs = 0;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end, ++runs) {
    if (runs == most) return text + fmt::format(" and {} more", ranks.size() - begin);
    for (end = begin + 1; end < ranks.size() && ranks[end] == ranks[end - 1] + 1;) ++end;
    text += fmt::format("{} {}", runs == 0 ? "" : ",", ranks[begin]);
    if (end - begin == 2) text += fmt::format(", {}", ranks[end - 1]);
    if (end - begin > 2) text += fmt::format("-{}", ranks[end - 1]);
  }
  return text;
}

}  // namespace trireme
