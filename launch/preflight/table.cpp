#include "launch/preflight/table.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::preflight {
namespace {

std::string lines_of(const std::vector<Node>& nodes, const std::vector<Finding>& findings) {
  std::size_t width = 4;
  for (const Node& node : nodes) width = std::max(width, node.host.size());
  std::string text;
  for (const Node& node : nodes) {
    const bool bad = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      const bool of_it = finding.host == node.host || finding.host.starts_with(node.host + "/");
      return finding.bad && of_it && finding.peer.empty();  // "n1/gpu3" is of n1
    });
    text += fmt::format("{:<{}}  {}  {}\n", node.host, width, bad ? "BAD " : "well", node.kind);
    std::string line;
    for (const FigureRule& rule : figure_rules())
      if (const auto value = node.figures.find(std::string(rule.name)); value != node.figures.end())
        line += fmt::format("  {} {:.4g}", rule.name, value->second);
    if (!line.empty()) text += fmt::format("{:<{}}{}\n", "", width, line);
  }
  return text;
}

}  // namespace

std::string table(const Report& report, const std::vector<Finding>& findings) {
  std::string text = lines_of(report.nodes, findings) + lines_of(report.gpus, findings);
  for (const Pair& pair : report.pairs)
    text += fmt::format("{} - {}: {:.3g} us, {:.3g} GB/s\n", pair.from, pair.to, pair.latency_us,
                        pair.gb_per_s);
  for (const Group& group : report.groups)
    text += fmt::format("{}: NCCL {} {:.3g} GB/s\n", group.name, group.kind, group.gb_per_s);
  for (const Finding& finding : findings)
    text += fmt::format("{}: {}{}: {}\n", finding.bad ? "bad" : "warning", finding.host,
                        finding.peer.empty() ? "" : " - " + finding.peer, finding.text);
  return text;
}

}  // namespace trireme::preflight
