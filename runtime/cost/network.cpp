#include "runtime/cost/network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace trireme::cost {
namespace {

/// Of the group that starts at rank `first`.
Spread spread_from(int first, const Group& group, int per_node) {
  Spread spread{group.size, 0, group.size};
  for (int member = 0; member < group.size;) {
    const int rank = first + member * group.stride;
    const int end = (rank / per_node + 1) * per_node;  // of the node
    const int here = std::min((end - rank + group.stride - 1) / group.stride, group.size - member);
    spread.local = std::min(spread.local, here);
    ++spread.nodes;
    member += here;
  }
  return spread;
}

/// The measurement whose group is nearest in size; null: none of this kind.
const MeasuredCollective* measured(const CollectiveWork& work, bool across,
                                   const Profile& profile) {
  const MeasuredCollective* best = nullptr;
  const auto distance = [&](const MeasuredCollective& one) {
    return std::abs(std::log(static_cast<double>(one.ranks) / work.ranks));
  };
  for (const MeasuredCollective& one : profile.collectives)
    if (one.kind == work.kind && one.across == across &&
        (best == nullptr || distance(one) < distance(*best)))
      best = &one;
  return best;
}

/// Seconds of the steps of a ring, and bytes per second past each of its ranks. A value passes all
/// ranks: it crosses to each further node once, and else moves inside a node. Ranks of a node share
/// their ports.
Link ring(const CollectiveWork& work, const Spread& spread, const Profile& profile,
          const Network& network) {
  const bool across = spread.nodes > 1;
  const int steps = work.ranks - 1;
  if (const MeasuredCollective* known = measured(work, across, profile))
    return {steps * known->link.latency, known->link.bytes_per_s};
  if (!across) return {steps * profile.node.latency, profile.node.bytes_per_s};
  const double ports = spread.local * network.port.bytes_per_s * profile.port_efficiency;
  const int hops = spread.nodes - 1;
  return {hops * network.port.latency + (steps - hops) * profile.node.latency,
          spread.nodes < work.ranks ? std::min(profile.node.bytes_per_s, ports) : ports};
}

}  // namespace

Spread spread_of(const Group& group, const Network& network) {
  const int per_node = network.ranks_per_node, block = group.size * group.stride;
  if (group.size == 1) return {};
  if (group.stride >= per_node) return {group.size, group.size, 1};
  if (per_node % block == 0) return {group.size, 1, group.size};
  if (per_node % group.stride == 0 && block % per_node == 0)
    return {group.size, block / per_node, per_node / group.stride};
  // Groups that do not fit nodes: starts repeat, relative to nodes, after as many blocks.
  const int period = per_node / std::gcd(block, per_node);
  const int blocks = group.ranks == 0 ? period : std::clamp(group.ranks / block, 1, period);
  Spread worst = spread_from(group.first, group, per_node);
  for (int b = 0; b < blocks; ++b)
    for (int offset = 0; offset < group.stride; ++offset) {
      const Spread each = spread_from(group.first + b * block + offset, group, per_node);
      const bool crosses = each.nodes > 1, crossed = worst.nodes > 1;
      if (crosses != crossed
              ? crosses
              : std::pair(-each.local, each.nodes) > std::pair(-worst.local, worst.nodes))
        worst = each;
    }
  return worst;
}

Spread spread_of(const std::vector<int>& ranks, const Network& network) {
  std::map<int, int> on_node;
  for (const int rank : ranks) ++on_node[rank / network.ranks_per_node];
  const auto size = static_cast<int>(ranks.size());
  Spread spread{size, static_cast<int>(on_node.size()), size};
  for (const auto& [node, count] : on_node) spread.local = std::min(spread.local, count);
  return spread;
}

double ring_time(const CollectiveWork& work, const Spread& group, const Profile& profile,
                 const Network& network) {
  if (group.ranks <= 1 || work.bytes <= 0) return 0;
  CollectiveWork sized = work;
  sized.ranks = group.ranks;
  const Link link = ring(sized, group, profile, network);
  const int rounds = work.kind == CollectiveWork::Kind::all_reduce ? 2 : 1;
  return profile.collective_seconds + rounds * link.latency + sized.ring_bytes() / link.bytes_per_s;
}

double collective_time(const CollectiveWork& work, const Group& group, const Profile& profile,
                       const Network& network) {
  return ring_time(work, spread_of(group, network), profile, network);
}

double message_time(double bytes, int from, int to, const Profile& profile,
                    const Network& network) {
  if (bytes <= 0 || from == to) return 0;
  const bool across = from / network.ranks_per_node != to / network.ranks_per_node;
  const double rate =
      across ? network.port.bytes_per_s * profile.port_efficiency : profile.node.bytes_per_s;
  return profile.collective_seconds + (across ? network.port : profile.node).latency + bytes / rate;
}

}  // namespace trireme::cost
