// A host whose GPU asks for a repair soon (docs/gpu/health.md, action "leave") is left while a
// spare can take its place: the job saves, and continues on the spare.
#include <algorithm>

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

/// Without those that are to be left, where `count` others are at hand that were never lost.
std::vector<Host> Supervisor::without_left(const std::vector<Host>& hosts,
                                           const std::vector<NodeState>& states,
                                           Index count) const {
  if (leave_.empty()) return hosts;
  const auto was_lost = [&](const Host& host) {
    return std::any_of(states.begin(), states.end(), [&](const NodeState& state) {
      return state.host == host.name && (state.lost || state.quarantined());
    });
  };
  std::vector<Host> others = hosts;
  std::erase_if(others, [&](const Host& host) { return leave_.contains(host.name); });
  const Index sound = std::ssize(others) - std::count_if(others.begin(), others.end(), was_lost);
  return sound < count ? hosts : others;
}

/// Asks the job to save and end when a host shows such a sign for the first time, and the next
/// attempt would do without it.
void Supervisor::consider_leaving(Watch& watch, const AttemptPlan& plan) {
  const double now = world_.now();
  if (plan.hosts.empty() || watch.asked || watch.first_step < 0 ||
      now - watch.looked_for_signs < look_for_signs_s)
    return;
  watch.looked_for_signs = now;
  for (const GpuSign& sign : world_.gpu_signs()) {
    if (sign.action != observe::HealthAction::leave || !contains(plan.hosts, sign.host) ||
        !leave_.insert(sign.host).second)
      continue;
    AttemptPlan next;
    try {
      if (!choose_hosts(next) || contains(next.hosts, sign.host) || next.ranks < plan.ranks)
        continue;
    } catch (const Error& error) {  // a file of hosts that is just being written, for example
      world_.say(error.what());
      leave_.erase(sign.host);
      return;
    }
    world_.say(fmt::format("{}: {}: asks the job to save and end, to continue without this host",
                           sign.host, sign.text));
    world_.notify("replacing", Json::Object{{"host", sign.host}, {"why", sign.text}});
    enter(State::saving);
    watch.replaces = watch.asked = true;
    watch.asked_at = now;
    ask(watch);
    return;
  }
}

}  // namespace trireme::supervisor
