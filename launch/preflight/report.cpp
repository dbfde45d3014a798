#include "launch/preflight/report.h"

#include "runtime/core/json/json_record.h"

namespace trireme::preflight {
namespace {

constexpr Index newest_format = 1;  // reports without a format are of 0
const std::string what = "a preflight's report";

}  // namespace

void describe(RecordOf<Node> auto& node, auto& member) {
  member("host", node.host);
  member("kind", node.kind);
  member("facts", node.facts);
  member("figures", node.figures);
  member("faults", node.faults);
  member("warnings", node.warnings);
}

void describe(RecordOf<Pair> auto& pair, auto& member) {
  member("from", pair.from);
  member("to", pair.to);
  member("latency_us", pair.latency_us);
  member("gb_per_s", pair.gb_per_s);
}

void describe(RecordOf<Group> auto& group, auto& member) {
  member("name", group.name);
  member("kind", group.kind);
  member("gb_per_s", group.gb_per_s);
  member.optional("gpus", group.gpus);
}

void describe(RecordOf<Report> auto& report, auto& member) {
  Index format = newest_format;
  member.optional("format", within(format, 0, newest_format,
                                   "a format that this version of trireme reads, 0 or 1"));
  member("nodes", report.nodes);
  member("pairs", report.pairs);
  member.when(!report.gpus.empty(), "gpus", report.gpus);
  member.when(!report.groups.empty(), "groups", report.groups);
}

Json to_json(const Node& node) { return trireme::to_json(node); }
Json to_json(const Pair& pair) { return trireme::to_json(pair); }
Json to_json(const Group& group) { return trireme::to_json(group); }
Json to_json(const Report& report) { return trireme::to_json(report); }
Node node_of(const Json& json) { return from_json<Node>(json, what); }
Report report_of(const Json& json) { return from_json<Report>(json, what); }

}  // namespace trireme::preflight
