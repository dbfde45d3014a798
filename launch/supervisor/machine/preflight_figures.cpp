#include "launch/supervisor/machine/preflight_figures.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::supervisor {
namespace {

std::string member_text(const Json& json, const char* key) {
  const Json* found = json.find(key);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(&found->value);
  return text == nullptr ? "" : *text;
}

}  // namespace

void keep_preflight(const Paths& paths, const preflight::Report& newest) {
  preflight::Report all = newest;
  for (const preflight::Node& node : read_preflight(paths).nodes) {
    const auto same = [&](const preflight::Node& each) { return each.host == node.host; };
    if (std::none_of(newest.nodes.begin(), newest.nodes.end(), same)) all.nodes.push_back(node);
  }
  replace_file(paths.preflight, to_text(to_json(all)) + "\n");
}

preflight::Report read_preflight(const Paths& paths) {
  constexpr Index most_bytes = Index{1} << 28;
  if (::access(paths.preflight.c_str(), F_OK) != 0) return {};
  try {
    return preflight::report_of(parse_json(read_whole(paths.preflight, most_bytes)));
  } catch (const Error&) {  // figures for people only
    return {};
  }
}

std::string text_of_figures(const preflight::Report& report) {
  std::string text;
  for (const preflight::Node& node : report.nodes) {
    std::string figures;
    for (const auto& [name, value] : node.figures)
      figures += fmt::format("{}{} {:.4g}", figures.empty() ? "" : ", ", name, value);
    text += fmt::format("preflight of {}: {}\n", node.host, figures);
  }
  return text;
}

void add_figures(Json& nodes, const preflight::Report& report) {
  Json::Array hosts;
  for (const preflight::Node& node : report.nodes) hosts.push_back(to_json(node));
  if (auto* members = std::get_if<Json::Object>(&nodes.value))
    members->emplace_back("preflight", std::move(hosts));
}

void add_unfit(Json& nodes, const std::vector<UnfitHost>& unfit) {
  Json::Array hosts;
  for (const UnfitHost& each : unfit)
    hosts.emplace_back(Json::Object{{"host", each.host}, {"why", each.why}});
  if (auto* members = std::get_if<Json::Object>(&nodes.value))
    members->emplace_back("unfit", std::move(hosts));
}

std::vector<UnfitHost> read_unfit(const Paths& paths) {
  constexpr Index most_bytes = Index{1} << 28;
  std::vector<UnfitHost> unfit;
  if (::access(paths.nodes.c_str(), F_OK) != 0) return unfit;
  try {
    const Json nodes = parse_json(read_whole(paths.nodes, most_bytes));
    const Json* found = nodes.find("unfit");
    const auto* hosts = found == nullptr ? nullptr : std::get_if<Json::Array>(&found->value);
    if (hosts == nullptr) return unfit;
    for (const Json& host : *hosts)
      unfit.push_back({member_text(host, "host"), member_text(host, "why")});
  } catch (const Error&) {  // derived from the ledger, for people
  }
  return unfit;
}

}  // namespace trireme::supervisor
