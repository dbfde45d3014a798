#include "launch/preflight/judge.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "runtime/observe/stragglers.h"

namespace trireme::preflight {
namespace {

constexpr double slow_ratio = 0.85, slow_score = -6;
constexpr std::size_t fewest = 4;

constexpr FigureRule rules[] = {
    {"gemm_gflops", "GFLOP/s", true, true},
    {"gpu_gemm_gflops", "GFLOP/s", true, true},  // of its slowest GPU
    {"copy_gb_per_s", "GB/s", true, true},
    {"fma_gflops", "GFLOP/s", true, true},
    {"steady_gemm_gflops", "GFLOP/s", true, true},
    // Of one GPU, in the long preflight.
    {"gpu_f32_gflops", "GFLOP/s", true, true},
    {"gpu_bf16_gflops", "GFLOP/s", true, true},
    {"gpu_copy_gb_per_s", "GB/s", true, true},
    {"disk_write_mb_per_s", "MB/s", true, true},
    {"disk_read_mb_per_s", "MB/s", true, true},
    {"run_write_mb_per_s", "MB/s", true, false},
    {"run_read_mb_per_s", "MB/s", true, false},
    // Storage that all nodes share is slow by turns.
    {"rename_sync_ms", "ms", false, false},
    {"clock_offset_s", "s", false, false},
    {"shm_free_mib", "MiB", true, false},
};

double rate(const FigureRule& rule, double value) {
  return rule.more_is_better ? value : value > 0 ? 1 / value : 0;
}

const Node* find_node(const Report* report, const std::string& host) {
  if (report == nullptr) return nullptr;
  for (const Node& node : report->nodes)
    if (node.host == host) return &node;
  return nullptr;
}

const Pair* find_pair(const Report* report, const Pair& wanted) {
  if (report == nullptr) return nullptr;
  for (const Pair& pair : report->pairs)
    if (pair.from == wanted.from && pair.to == wanted.to) return &pair;
  return nullptr;
}

std::optional<double> figure(const Node* node, std::string_view name) {
  if (node == nullptr) return std::nullopt;
  const auto found = node->figures.find(std::string(name));
  return found == node->figures.end() ? std::nullopt : std::optional(found->second);
}

std::string than_what(const Slowness& slow) {
  return fmt::format("{:.2f} of {}", slow.ratio,
                     slow.against_before ? "what it was before" : "the median");
}

void slow_nodes(const Report& report, const Report* before, std::vector<Finding>& found) {
  for (const FigureRule& rule : rules) {
    if (!rule.names_nodes) continue;
    std::map<std::string, std::vector<double>> by_kind;
    for (const Node& node : report.nodes)
      if (const auto value = figure(&node, rule.name))
        by_kind[node.kind].push_back(rate(rule, *value));
    for (const Node& node : report.nodes) {
      const auto value = figure(&node, rule.name);
      if (!value) continue;
      std::optional<double> earlier = figure(find_node(before, node.host), rule.name);
      if (earlier) earlier = rate(rule, *earlier);
      const Slowness slow = slowness(rate(rule, *value), by_kind[node.kind], earlier);
      if (slow.slow)
        found.push_back(
            {node.host, "", true,
             fmt::format("slow: {} {:.4g} {}, {}", rule.name, *value, rule.unit, than_what(slow))});
    }
  }
}

struct SlowLink {
  const Pair* pair;
  std::string text;
};

std::vector<SlowLink> slow_links(const Report& report, const Report* before) {
  std::vector<double> latencies, rates;
  for (const Pair& pair : report.pairs) {
    latencies.push_back(1 / pair.latency_us);
    rates.push_back(pair.gb_per_s);
  }
  std::vector<SlowLink> slow;
  for (const Pair& pair : report.pairs) {
    const Pair* earlier = find_pair(before, pair);
    const Slowness wide =
        slowness(pair.gb_per_s, rates, earlier ? std::optional(earlier->gb_per_s) : std::nullopt);
    const Slowness late = slowness(1 / pair.latency_us, latencies,
                                   earlier ? std::optional(1 / earlier->latency_us) : std::nullopt);
    if (wide.slow)
      slow.push_back({&pair, fmt::format("{:.3g} GB/s, {}", pair.gb_per_s, than_what(wide))});
    else if (late.slow)
      slow.push_back(
          {&pair, fmt::format("latency {:.3g} us, speed {}", pair.latency_us, than_what(late))});
  }
  return slow;
}

/// Nodes most of whose links are slow.
std::set<std::string> nodes_of(const std::vector<SlowLink>& slow, const Report& report) {
  std::map<std::string, int> all, bad;
  for (const Pair& pair : report.pairs) {
    ++all[pair.from];
    ++all[pair.to];
  }
  for (const SlowLink& link : slow) {
    ++bad[link.pair->from];
    ++bad[link.pair->to];
  }
  std::set<std::string> nodes;
  for (const auto& [host, links] : bad)
    if (links >= 2 && 2 * links > all[host]) nodes.insert(host);
  return nodes;
}

void name_links(const Report& report, const Report* before, std::vector<Finding>& found) {
  const std::vector<SlowLink> slow = slow_links(report, before);
  const std::set<std::string> nodes = nodes_of(slow, report);
  for (const std::string& host : nodes)
    found.push_back({host, "", true, "slow: most of its links are"});
  for (const SlowLink& link : slow)
    if (!nodes.contains(link.pair->from) && !nodes.contains(link.pair->to))
      found.push_back({link.pair->from, link.pair->to, true, "slow link: " + link.text});
}

/// A sum over more GPUs takes longer, without any of them being slow.
bool are_alike(const Group& a, const Group& b) {
  return a.kind == b.kind && (a.gpus == b.gpus || a.gpus == 0 || b.gpus == 0);
}

const Group* find_group(const Report* report, const Group& wanted) {
  if (report == nullptr) return nullptr;
  for (const Group& group : report->groups)
    if (group.name == wanted.name && are_alike(group, wanted)) return &group;
  return nullptr;
}

struct FactRule {
  const char* name;
  bool of_one_kind;  // compared among nodes of one kind, or GPUs, only
  bool bad;
  const char* what;
};
constexpr FactRule fact_rules[] = {
    {"version", false, true, "another version of trireme"},
    {"program", false, true, "another build of trireme"},
    {"gpus", false, true, "another number of GPUs"},
    {"product", true, true, "products have other bits than those of others of its kind"},
    {"product bf16", true, true, "bf16 products have other bits than those of others of its kind"},
    {"training", true, true, "training steps have other bits than those of others of its kind"},
    {"kernel", false, false, "another kernel"},
    {"driver", false, false, "another driver of GPUs"},
};

/// "4096: HASH" is compared with others that begin with "4096:".
std::string compared_with(const FactRule& rule, const Node& node, const std::string& fact) {
  if (!rule.of_one_kind) return "";
  const std::size_t colon = fact.find(':');
  return node.kind + (colon == std::string::npos ? "" : "\n" + fact.substr(0, colon));
}

/// What more than half of the nodes have; empty: there is no such value.
std::string usual(const std::map<std::string, std::size_t>& counts) {
  std::size_t all = 0;
  for (const auto& [text, count] : counts) all += count;
  for (const auto& [text, count] : counts)
    if (2 * count > all) return text;
  return "";
}

Pair better_of(const Pair& a, const Pair& b) {
  return {a.from, a.to, std::min(a.latency_us, b.latency_us), std::max(a.gb_per_s, b.gb_per_s)};
}

}  // namespace

std::span<const FigureRule> figure_rules() { return rules; }

Slowness slowness(double value, std::span<const double> all, std::optional<double> before) {
  if (all.size() >= fewest) {
    const observe::RobustScore score = observe::robust_score(value, all);
    if (score.ratio < slow_ratio && score.z < slow_score) return {true, score.ratio, false};
  }
  if (before && *before > 0 && value < slow_ratio * *before) return {true, value / *before, true};
  return {};
}

bool are_compared(const Report& report) {
  std::map<std::string, std::size_t> of_kind;
  for (const Node& node : report.nodes)
    if (++of_kind[node.kind] >= fewest) return true;
  return false;
}

std::vector<Finding> slow_ones(const Report& report, const Report* before) {
  std::vector<Finding> found;
  slow_nodes(report, before, found);
  name_links(report, before, found);
  return found;
}

std::vector<Finding> different_ones(const Report& report) {
  std::vector<Finding> found;
  for (const FactRule& rule : fact_rules) {
    std::map<std::string, std::map<std::string, std::size_t>> counts;
    for (const Node& node : report.nodes)
      if (const auto fact = node.facts.find(rule.name); fact != node.facts.end())
        ++counts[compared_with(rule, node, fact->second)][fact->second];
    for (const Node& node : report.nodes) {
      const auto fact = node.facts.find(rule.name);
      if (fact == node.facts.end()) continue;
      const std::map<std::string, std::size_t>& group =
          counts[compared_with(rule, node, fact->second)];
      const std::string most = usual(group);
      if (group.size() == 1 || fact->second == most) continue;
      found.push_back({node.host, "", rule.bad,
                       fmt::format("{}: {}{}", rule.what, fact->second,
                                   most.empty() ? ", and no value is that of most nodes"
                                                : ", most have " + most)});
    }
  }
  return found;
}

std::vector<Finding> slow_groups(const Report& report, const Report* before) {
  std::vector<Finding> found;
  for (const Group& group : report.groups) {
    std::vector<double> rates;
    for (const Group& each : report.groups)
      if (are_alike(each, group)) rates.push_back(each.gb_per_s);
    const Group* earlier = find_group(before, group);
    const Slowness slow =
        slowness(group.gb_per_s, rates, earlier ? std::optional(earlier->gb_per_s) : std::nullopt);
    if (slow.slow)
      found.push_back({group.name, "", true,
                       fmt::format("slow: NCCL {} {:.4g} GB/s, {}", group.kind, group.gb_per_s,
                                   than_what(slow))});
  }
  return found;
}

std::vector<Finding> judge(const Report& report, const Report* before) {
  std::vector<Finding> all;
  if (!report.gpus.empty()) {
    const Report gpus{report.gpus}, gpus_before{before ? before->gpus : std::vector<Node>{}};
    all = judge(gpus, &gpus_before);
  }
  for (const Node& node : report.nodes) {
    for (const std::string& fault : node.faults) all.push_back({node.host, "", true, fault});
    for (const std::string& warning : node.warnings) all.push_back({node.host, "", false, warning});
  }
  for (const auto& more :
       {different_ones(report), slow_ones(report, before), slow_groups(report, before)})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

bool any_bad(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.bad; });
}

Suspects suspects(const std::vector<Finding>& slow) {
  Suspects found;
  for (const Finding& finding : slow)
    if (finding.peer.empty())
      found.nodes.insert(finding.host);
    else
      found.links.insert({finding.host, finding.peer});
  return found;
}

Report better_of(const Report& first, const Report& second) {
  Report best = first;
  for (Node& node : best.nodes) {
    const Node* again = find_node(&second, node.host);
    if (again == nullptr) continue;
    for (const std::string& fault : again->faults)  // such as wrong bits, seen the second time only
      if (std::find(node.faults.begin(), node.faults.end(), fault) == node.faults.end())
        node.faults.push_back(fault);
    for (const FigureRule& rule : rules) {
      const auto value = figure(again, rule.name), own = figure(&node, rule.name);
      if (value && own && rate(rule, *value) > rate(rule, *own))
        node.figures[std::string(rule.name)] = *value;
    }
  }
  for (const Group& group : second.groups)
    for (Group& own : best.groups)
      if (own.name == group.name && own.kind == group.kind)
        own.gb_per_s = std::max(own.gb_per_s, group.gb_per_s);
  for (const Pair& pair : second.pairs) {  // one may be there several times
    const auto same = std::find_if(best.pairs.begin(), best.pairs.end(), [&](const Pair& each) {
      return each.from == pair.from && each.to == pair.to;
    });
    if (same == best.pairs.end())
      best.pairs.push_back(pair);
    else
      *same = better_of(*same, pair);
  }
  return best;
}

}  // namespace trireme::preflight
