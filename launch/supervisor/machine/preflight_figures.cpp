#include "launch/supervisor/machine/preflight_figures.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"

namespace trireme::supervisor {

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

}  // namespace trireme::supervisor
