// A host whose GPU asks for a repair soon (docs/gpu/health.md, action "leave") is left while a
// spare can take its place: the job saves, and continues on the spare.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/watch.h"

namespace trireme::supervisor {
namespace {

constexpr double look_for_signs_s = 2;

bool contains(const std::vector<Host>& hosts, const std::string& name) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const Host& host) { return host.name == name; });
}

}  // namespace

/// Without those of `left`, where enough others are at hand that were never lost.
std::vector<Host> Supervisor::without_left(const std::vector<Host>& hosts,
                                           const std::vector<NodeState>& states,
                                           const std::set<std::string>& left) const {
  if (left.empty()) return hosts;
  const auto was_lost = [&](const Host& host) {
    return std::any_of(states.begin(), states.end(), [&](const NodeState& state) {
      return state.host == host.name && (state.lost || state.quarantined());
    });
  };
  std::vector<Host> others = hosts;
  std::erase_if(others, [&](const Host& host) { return left.contains(host.name); });
  const Index sound = std::ssize(others) - std::count_if(others.begin(), others.end(), was_lost);
  return sound < settings_.nodes ? hosts : others;
}

/// Whether the next attempt could have as many ranks without the host. Nothing: it is not known
/// yet.
std::optional<bool> Supervisor::can_do_without(const AttemptPlan& plan, const std::string& host) {
  AttemptPlan next;
  bool found = false;
  try {
    if (!with_layouts([&] { found = choose_hosts(next, host); })) return std::nullopt;
  } catch (const Error& error) {  // a file of hosts that is just being written, for example
    if (std::exchange(why_no_list_, error.what()) != error.what()) world_.say(why_no_list_);
    return std::nullopt;
  }
  return found && !contains(next.hosts, host) && next.ranks >= plan.ranks;
}

/// Asks the job to save and end, to continue without the host.
void Supervisor::leave(Watch& watch, const Leave& line) {
  world_.announce("replacing",
                  fmt::format("{}: {}: asks the job to save and end, to continue without this host",
                              line.host, line.why),
                  Json::Object{{"host", line.host}, {"why", line.why}});
  watch.facts.leaves = line;
  watch.asked = true;
  watch.asked_at = world_.now();
  ask(watch);
}

/// Leaves a host when it shows such a sign for the first time, and the next attempt would do
/// without it.
void Supervisor::consider_leaving(Watch& watch, const AttemptPlan& plan) {
  const double now = world_.now();
  if (plan.hosts.empty() || watch.asked || watch.first_step < 0 ||
      now - watch.looked_for_signs < look_for_signs_s)
    return;
  watch.looked_for_signs = now;
  for (const GpuSign& sign : world_.gpu_signs()) {
    if (sign.action != observe::HealthAction::leave || !contains(plan.hosts, sign.host) ||
        hosts_to_leave(history_, world_.date()).contains(sign.host))
      continue;
    const auto can = can_do_without(plan, sign.host);
    if (!can) return;
    const Leave line{sign.host, world_.date(), sign.text};
    world_.append(to_json(line));  // also a supervisor that is started again does without it
    history_.add(line);
    if (*can) return leave(watch, line);
  }
  consider_stragglers(watch, plan);
}

}  // namespace trireme::supervisor
