#include "launch/preflight/report.h"

#include "trireme/core/error.h"

namespace trireme::preflight {
namespace {

constexpr Index newest_format = 1;  // reports without a format are of 0

const Json& member(const Json& json, const char* key) {
  const Json* found = json.find(key);
  require(found != nullptr, "a preflight's report lacks \"", key, "\"");
  return *found;
}

template <class T>
const T& of_type(const Json& json, const char* key) {
  const T* value = std::get_if<T>(&member(json, key).value);
  require(value != nullptr, "\"", key, "\" of a preflight's report has another type");
  return *value;
}

double number(const Json& json, const std::string& key) {
  if (const Index* whole = std::get_if<Index>(&json.value)) return static_cast<double>(*whole);
  const double* value = std::get_if<double>(&json.value);
  require(value != nullptr, "\"", key, "\" of a preflight's report is no number");
  return *value;
}

Json texts(const std::vector<std::string>& all) { return Json::Array(all.begin(), all.end()); }

std::vector<std::string> texts(const Json& json, const char* key) {
  std::vector<std::string> all;
  for (const Json& each : of_type<Json::Array>(json, key)) {
    const auto* text = std::get_if<std::string>(&each.value);
    require(text != nullptr, "\"", key, "\" of a preflight's report holds other than text");
    all.push_back(*text);
  }
  return all;
}

}  // namespace

Json to_json(const Node& node) {
  Json::Object facts, figures;
  for (const auto& [name, text] : node.facts) facts.emplace_back(name, text);
  for (const auto& [name, value] : node.figures) figures.emplace_back(name, value);
  return Json::Object{{"host", node.host},
                      {"kind", node.kind},
                      {"facts", std::move(facts)},
                      {"figures", std::move(figures)},
                      {"faults", texts(node.faults)},
                      {"warnings", texts(node.warnings)}};
}

Json to_json(const Pair& pair) {
  return Json::Object{{"from", pair.from},
                      {"to", pair.to},
                      {"latency_us", pair.latency_us},
                      {"gb_per_s", pair.gb_per_s}};
}

Json to_json(const Group& group) {
  return Json::Object{{"name", group.name},
                      {"kind", group.kind},
                      {"gb_per_s", group.gb_per_s},
                      {"gpus", group.gpus}};
}

Json to_json(const Report& report) {
  const auto all = [](const auto& items) {
    Json::Array array;
    for (const auto& item : items) array.push_back(to_json(item));
    return array;
  };
  Json::Object json{
      {"format", newest_format}, {"nodes", all(report.nodes)}, {"pairs", all(report.pairs)}};
  if (!report.gpus.empty()) json.emplace_back("gpus", all(report.gpus));
  if (!report.groups.empty()) json.emplace_back("groups", all(report.groups));
  return json;
}

Node node_of(const Json& json) {
  Node node;
  node.host = of_type<std::string>(json, "host");
  node.kind = of_type<std::string>(json, "kind");
  for (const auto& [name, value] : of_type<Json::Object>(json, "facts"))
    if (const auto* text = std::get_if<std::string>(&value.value)) node.facts[name] = *text;
  for (const auto& [name, value] : of_type<Json::Object>(json, "figures"))
    node.figures[name] = number(value, name);
  node.faults = texts(json, "faults");
  node.warnings = texts(json, "warnings");
  return node;
}

Report report_of(const Json& json) {
  Report report;
  if (const Json* format = json.find("format")) {
    const Index* number = std::get_if<Index>(&format->value);
    require(number != nullptr && *number <= newest_format, "a preflight's report of format ",
            number == nullptr ? "?" : std::to_string(*number),
            ", but this version of trireme reads ", newest_format);
  }
  for (const Json& node : of_type<Json::Array>(json, "nodes"))
    report.nodes.push_back(node_of(node));
  for (const Json& pair : of_type<Json::Array>(json, "pairs"))
    report.pairs.push_back({of_type<std::string>(pair, "from"), of_type<std::string>(pair, "to"),
                            number(member(pair, "latency_us"), "latency_us"),
                            number(member(pair, "gb_per_s"), "gb_per_s")});
  if (json.find("gpus") != nullptr)
    for (const Json& gpu : of_type<Json::Array>(json, "gpus")) report.gpus.push_back(node_of(gpu));
  if (json.find("groups") != nullptr)
    for (const Json& group : of_type<Json::Array>(json, "groups"))
      report.groups.push_back({of_type<std::string>(group, "name"),
                               of_type<std::string>(group, "kind"),
                               number(member(group, "gb_per_s"), "gb_per_s"),
                               group.find("gpus") ? of_type<Index>(group, "gpus") : 0});
  return report;
}

}  // namespace trireme::preflight
