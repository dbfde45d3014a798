#include "runtime/planner/network.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace trireme::planner {
namespace {

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

/// What a ring of this group moves past each of its ranks. Ranks of a node share their ports.
Link ring_link(const CollectiveWork& work, const Spread& group, const Profile& profile,
               const Network& network) {
  const int local = group.local;
  const bool across = local < group.ranks;
  if (const MeasuredCollective* known = measured(work, across, profile)) return known->link;
  if (!across) return profile.node;
  const double ports = local * network.port.bytes_per_s * profile.port_efficiency;
  return {network.port.latency, local > 1 ? std::min(profile.node.bytes_per_s, ports) : ports};
}

}  // namespace

Spread spread_of(const Group& group, const Network& network) {
  return {group.size, std::clamp(network.ranks_per_node / group.stride, 1, group.size)};
}

Spread spread_of(const std::vector<int>& ranks, const Network& network) {
  std::map<int, int> on_node;
  for (const int rank : ranks) ++on_node[rank / network.ranks_per_node];
  Spread spread{static_cast<int>(ranks.size()), static_cast<int>(ranks.size())};
  for (const auto& [node, count] : on_node) spread.local = std::min(spread.local, count);
  return spread;
}

double collective_time(const CollectiveWork& work, const Group& group, const Profile& profile,
                       const Network& network) {
  return ring_time(work, spread_of(group, network), profile, network);
}

double ring_time(const CollectiveWork& work, const Spread& group, const Profile& profile,
                 const Network& network) {
  if (group.ranks <= 1 || work.bytes <= 0) return 0;
  CollectiveWork sized = work;
  sized.ranks = group.ranks;
  const Link link = ring_link(sized, group, profile, network);
  const int rounds = work.kind == CollectiveWork::Kind::all_reduce ? 2 : 1;
  return profile.collective_seconds + link.latency * rounds * (group.ranks - 1) +
         sized.ring_bytes() / link.bytes_per_s;
}

double message_time(double bytes, int from, int to, const Profile& profile,
                    const Network& network) {
  if (bytes <= 0 || from == to) return 0;
  const bool across = from / network.ranks_per_node != to / network.ranks_per_node;
  const double rate =
      across ? network.port.bytes_per_s * profile.port_efficiency : profile.node.bytes_per_s;
  return profile.collective_seconds + (across ? network.port : profile.node).latency + bytes / rate;
}

}  // namespace trireme::planner
