// The text of the file of a profile: what profile_json.cpp reads.
#include "runtime/core/json/json.h"
#include "runtime/planner/profile_json.h"
#include "runtime/planner/units.h"

namespace trireme::planner {
namespace {

const char* direction(bool backward) { return backward ? "backward" : "forward"; }

Json device_of(const Profile& profile) {
  const DeviceTraits& device = profile.device;
  Json::Object all{{"name", profile.name}};
  if (profile.is_cpu())
    all.insert(all.end(), {{"kind", "cpu"},
                           {"threads", device.threads},
                           {"instruction_set", name(device.instruction_set)},
                           {"native_bf16", device.native_bf16 ? 1 : 0}});
  else
    all.insert(all.end(), {{"capability", device.capability},
                           {"sms", device.multiprocessors},
                           {"shared_bytes", device.shared_bytes}});
  all.insert(all.end(),
             {{"memory", profile.memory},
              {"peak", Json::Object{{"bf16", profile.peak_bf16}, {"f32", profile.peak_f32}}}});
  return all;
}

Json products_of(const Profile& profile) {
  Json::Array rows;
  for (const MeasuredProduct& each : profile.products)
    rows.emplace_back(
        Json::Array{each.m, each.n, each.k, each.kind, name(each.dtype), each.flops_per_s / tera});
  return rows;
}

Json attentions_of(const Profile& profile) {
  Json::Array rows;
  for (const MeasuredAttention& each : profile.attentions)
    rows.emplace_back(Json::Array{each.sequence, each.head_dim, direction(each.backward),
                                  name(each.dtype), each.flops_per_s / tera});
  return rows;
}

Json loops_of(const Profile& profile) {
  Json::Array rows;
  for (const MeasuredLoop& each : profile.loops)
    rows.emplace_back(Json::Array{each.op, direction(each.backward), each.bytes_per_s / giga});
  return rows;
}

Json link_of(bool across, const char* op, int ranks, const Link& link) {
  return Json::Object{{"group", across ? "network" : "node"},
                      {"op", op},
                      {"size", ranks},
                      {"alpha_us", link.latency / micro},
                      {"beta_gbs", link.bytes_per_s / giga}};
}

Json links_of(const Profile& profile) {
  Json::Array rows;
  if (profile.node.bytes_per_s > 0) rows.push_back(link_of(false, "any", 2, profile.node));
  if (profile.across.bytes_per_s > 0) rows.push_back(link_of(true, "any", 2, profile.across));
  for (const MeasuredCollective& each : profile.collectives)
    rows.push_back(link_of(each.across, name(each.kind), each.ranks, each.link));
  return rows;
}

}  // namespace

std::string text_of(const Profile& profile, const std::string& when) {
  Json::Object all{{"format", 1},
                   {"device", device_of(profile)},
                   {"grade", name(profile.grade)},
                   {"product_model",
                    Json::Object{{"efficiency", profile.efficiency}, {"half_k", profile.half_k}}},
                   {"products", products_of(profile)},
                   {"attention", Json::Object{{"forward", profile.attention_forward},
                                              {"backward", profile.attention_backward}}},
                   {"attentions", attentions_of(profile)},
                   {"bytes_per_s", profile.bytes_per_s},
                   {"loops", loops_of(profile)},
                   {"op_us", profile.op_seconds / micro},
                   {"links", links_of(profile)},
                   {"port_efficiency", profile.port_efficiency},
                   {"collective_us", profile.collective_seconds / micro},
                   {"contention", profile.contention},
                   {"context_bytes", profile.context_bytes},
                   {"nccl_bytes", profile.communicator_bytes},
                   {"spread", profile.spread},
                   {"when", when}};
  if (profile.ranks_per_node > 0) all.emplace_back("ranks_per_node", profile.ranks_per_node);
  std::string text;
  for (const auto& [name, value] : all)
    text += (text.empty() ? "{" : ",\n ") + to_text(Json(name)) + ": " + to_text(value);
  return text + "}\n";
}

}  // namespace trireme::planner
