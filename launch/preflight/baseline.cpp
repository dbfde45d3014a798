#include "launch/preflight/baseline.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"

namespace trireme::preflight {
namespace {

const Node* find(const std::vector<Node>& nodes, const std::string& host) {
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) { return node.host == host; });
  return found == nodes.end() ? nullptr : &*found;
}

std::string hosts_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

std::string version_of(const std::vector<Node>& nodes) {
  for (const Node& node : nodes)
    if (const auto version = node.facts.find("version"); version != node.facts.end())
      return version->second;
  return "";
}

/// Returns the hosts that were removed from `before`.
std::set<std::string> keep_same_kind(const std::vector<Node>& now, std::vector<Node>& before,
                                     const std::string& name, std::vector<Finding>& found) {
  std::set<std::string> removed;
  for (const Node& node : now) {
    const Node* earlier = find(before, node.host);
    if (earlier == nullptr)
      found.push_back({node.host, "", false, fmt::format("is not in {}: not compared", name)});
    else if (earlier->kind != node.kind && node.kind != unknown_kind)
      found.push_back({node.host, "", false,
                       fmt::format("is not the machine of {}, which is '{}' there: not compared",
                                   name, earlier->kind)});
    else
      continue;
    if (std::erase_if(before, [&](const Node& each) { return each.host == node.host; }) > 0)
      removed.insert(node.host);
  }
  return removed;
}

}  // namespace

Report read_baseline(const std::string& path, const std::vector<std::string>& hosts) {
  constexpr Index most_bytes = Index{1} << 30;
  const Report report = report_of(parse_json(read_whole(path, most_bytes)));
  std::vector<std::string> names;
  for (const Node& node : report.nodes) names.push_back(node.host);
  const bool any = std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return find(report.nodes, host) != nullptr;
  });
  require(any, "it is a report of ", names.empty() ? "no host" : hosts_of(names), ", not of ",
          hosts_of(hosts));
  return report;
}

std::vector<Finding> keep_comparable(const Report& now, Report& before, const std::string& name) {
  std::vector<Finding> found;
  const std::string version = version_of(now.nodes), earlier = version_of(before.nodes);
  if (!version.empty() && version != earlier)
    found.push_back(
        {name, "", false,
         fmt::format("is of {}, and this is trireme {}: figures may differ for that",
                     earlier.empty() ? "an unknown version" : "trireme " + earlier, version)});
  const std::set<std::string> others = keep_same_kind(now.nodes, before.nodes, name, found);
  std::erase_if(before.pairs, [&](const Pair& pair) {
    return others.contains(pair.from) || others.contains(pair.to);
  });
  std::erase_if(before.groups, [&](const Group& group) { return others.contains(group.name); });
  if (!before.gpus.empty()) keep_same_kind(now.gpus, before.gpus, name, found);
  return found;
}

}  // namespace trireme::preflight
