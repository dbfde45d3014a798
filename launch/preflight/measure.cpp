#include "launch/preflight/measure.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/comm/agree.h"

#include "launch/preflight/judge.h"

namespace trireme::preflight {
namespace {

using Names = std::vector<std::string>;
using Round = std::vector<std::pair<int, int>>;

/// Collective. On rank 0 what all ranks have measured. All have the groups.
Report gather(const Host& host, const std::vector<Node>& nodes, const std::vector<Pair>& pairs,
              const std::vector<Group>& groups) {
  Report all;
  for (const std::string& text : gather_strings(host, to_text(to_json(Report{nodes, pairs})))) {
    if (host.rank() != 0) continue;
    Report one = report_of(parse_json(text));
    all.nodes.insert(all.nodes.end(), one.nodes.begin(), one.nodes.end());
    all.pairs.insert(all.pairs.end(), one.pairs.begin(), one.pairs.end());
  }
  all.groups = groups;
  return all;
}

struct Again {
  Suspects suspects;
  bool groups = false;
};

/// Collective. What rank 0 suspects, on all ranks.
Again agree_on_suspects(const Host& host, const Report& first) {
  Report carried;
  if (host.rank() == 0) {
    Suspects mine = suspects(slow_ones(first, nullptr));
    // A node may be named in place of its links, which one disturbance can have slowed.
    for (const Pair& pair : first.pairs)
      if (mine.nodes.contains(pair.from) || mine.nodes.contains(pair.to))
        mine.links.insert({pair.from, pair.to});
    for (const std::string& name : mine.nodes) {
      carried.nodes.emplace_back();
      carried.nodes.back().host = name;
    }
    for (const auto& [from, to] : mine.links) carried.pairs.push_back({from, to});
    if (!slow_groups(first, nullptr).empty()) carried.groups.emplace_back();
  }
  const Report read = report_of(parse_json(broadcast_text(host, to_text(to_json(carried)))));
  Again again;
  for (const Node& node : read.nodes) again.suspects.nodes.insert(node.host);
  for (const Pair& pair : read.pairs) again.suspects.links.insert({pair.from, pair.to});
  again.groups = !read.groups.empty();
  return again;
}

/// Collective. The pairs of a round, in which no rank is twice; those whose first rank this is.
std::vector<Pair> measure_round(const Host& host, const Round& round, const Work& work) {
  std::vector<Pair> measured;
  for (const auto& [a, b] : round)
    if (host.rank() == a || host.rank() == b) {
      const Pair pair = work.link(a, b);
      if (host.rank() == a) measured.push_back(pair);
    }
  host.world().barrier();
  return measured;
}

std::vector<Pair> measure_links(const Host& host, const Work& work) {
  const int nodes = host.world().size();
  std::vector<Pair> all;
  for (int distance = 1; work.link && distance < nodes; distance *= 2) {
    Round round;
    for (int a = 0; a < nodes; ++a)
      if (const int b = a ^ distance; a < b && b < nodes) round.emplace_back(a, b);
    for (Pair& pair : measure_round(host, round, work)) all.push_back(std::move(pair));
  }
  return all;
}

/// Another partner of a rank, as far away as can be.
int other_partner(int of, int not_this, int nodes) {
  int partner = (of + nodes / 2) % nodes;
  while (partner == of || partner == not_this) partner = (partner + 1) % nodes;
  return partner;
}

/// These links, and each end of them with another node.
std::vector<Pair> measure_links_again(const Host& host, const Names& names,
                                      const std::set<std::pair<std::string, std::string>>& links,
                                      const Work& work) {
  constexpr std::size_t many = 16;  // are measured as at first, many at a time
  if (links.size() > many) return measure_links(host, work);
  const int nodes = host.world().size();
  const auto rank_of = [&](const std::string& name) {
    return static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  std::vector<Pair> all;
  const auto one = [&](int a, int b) {
    for (Pair& pair : measure_round(host, {{std::min(a, b), std::max(a, b)}}, work))
      all.push_back(std::move(pair));
  };
  for (const auto& [from, to] : links) {
    const int a = rank_of(from), b = rank_of(to);
    one(a, b);
    if (nodes < 3) continue;
    one(a, other_partner(a, b, nodes));
    one(b, other_partner(b, a, nodes));
  }
  return all;
}

}  // namespace

Report measure_all(const Host& host, const Names& names, const Work& work, bool all_twice) {
  const std::string& own = names[static_cast<std::size_t>(host.rank())];
  Node node = work.check();
  const auto groups = [&] { return work.groups ? work.groups() : std::vector<Group>(); };
  // In this order on all ranks.
  const std::vector<Pair> links = measure_links(host, work);
  const Report first = gather(host, {node}, links, groups());
  const Again again = agree_on_suspects(host, first);
  const Suspects& slow = again.suspects;
  if (!all_twice && slow.nodes.empty() && slow.links.empty() && !again.groups) return first;

  std::vector<Node> mine;
  if (all_twice || slow.nodes.contains(own)) {
    node.faults.clear();
    node.warnings.clear();
    work.measure_speed(node);
    mine.push_back(node);
  }
  const std::vector<Pair> links_again =
      all_twice ? measure_links(host, work) : measure_links_again(host, names, slow.links, work);
  std::vector<Group> groups_again;
  if (all_twice || again.groups) groups_again = groups();
  return better_of(first, gather(host, mine, links_again, groups_again));
}

}  // namespace trireme::preflight
