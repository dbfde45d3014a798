#include "launch/preflight/report.h"

#include "trireme/core/error.h"

namespace trireme::preflight {
namespace {

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

Json to_json(const Report& report) {
  Json::Array nodes, pairs;
  for (const Node& node : report.nodes) nodes.push_back(to_json(node));
  for (const Pair& pair : report.pairs) pairs.push_back(to_json(pair));
  return Json::Object{{"nodes", std::move(nodes)}, {"pairs", std::move(pairs)}};
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
  for (const Json& node : of_type<Json::Array>(json, "nodes"))
    report.nodes.push_back(node_of(node));
  for (const Json& pair : of_type<Json::Array>(json, "pairs"))
    report.pairs.push_back({of_type<std::string>(pair, "from"), of_type<std::string>(pair, "to"),
                            number(member(pair, "latency_us"), "latency_us"),
                            number(member(pair, "gb_per_s"), "gb_per_s")});
  return report;
}

}  // namespace trireme::preflight
