// The hosts of an attempt, and the step that it starts from.
#include <algorithm>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/state_machine.h"

namespace trireme::supervisor {

/// Chooses hosts and the step to start from. False: too few hosts.
bool Supervisor::pick(AttemptPlan& plan) {
  constexpr double until_list_is_whole_s = 10;
  const double began = world_.now();
  while (!pick_listed_hosts(plan)) {
    const double least = why_no_list_.empty() ? 0 : until_list_is_whole_s;
    const double until = began + std::max(settings_.wait_nodes_s, least);
    if (world_.now() >= until || !wait(std::min(1.0, until - world_.now()))) return false;
  }
  const std::vector<Index> durable = world_.durable_steps();
  plan.attempt = history_.attempts.empty() ? 1 : history_.attempts.back().began.attempt + 1;
  for (std::size_t i = 0; i < history_.attempts.size(); ++i)
    if (progressed(history_.attempts[i]))
      (i < history_.first ? plan.has_saved : plan.resumes) = true;
  // Also where there is one step only: snapshots in memory may be newer.
  if (go_back_ && !durable.empty()) plan.step = durable[durable.size() > 1 ? 1 : 0];
  go_back_ = false;
  return true;
}

/// As pick_healthy_hosts(); a list of hosts that cannot be read, as it may be half written, is said
/// once.
bool Supervisor::pick_listed_hosts(AttemptPlan& plan) {
  try {
    const bool found = pick_healthy_hosts(plan);
    why_no_list_.clear();
    return found;
  } catch (const Error& error) {
    if (why_no_list_ != error.what()) world_.say(error.what());
    why_no_list_ = error.what();
    return false;
  }
}

/// Hosts that pass the preflight. False: too few.
bool Supervisor::pick_healthy_hosts(AttemptPlan& plan) {
  take_releases();
  while (choose_hosts(plan))
    if (pass_preflight(plan.hosts)) return true;
  return false;
}

/// Those of the last attempt where they can be had, and the layout on them. False: too few.
bool Supervisor::choose_hosts(AttemptPlan& plan) {
  plan.ranks = settings_.nodes * settings_.ranks_per_node;
  std::vector<Host> hosts = world_.hosts();
  listed_ = hosts.size();
  if (hosts.empty() && !settings_.has_hosts) return true;  // this machine
  std::vector<std::string> before;
  if (!history_.attempts.empty()) before = history_.attempts.back().began.nodes;
  if (swaps_hosts(history_)) std::reverse(before.begin(), before.end());
  std::erase_if(hosts, [&](const Host& host) { return unfit_.contains(host.name); });
  const auto states = node_states(history_, world_.date());
  hosts = without_left(hosts, states, settings_.nodes);
  const auto pick_some = [&](Index count) { return pick_hosts(hosts, states, before, count); };
  plan.hosts = pick_some(settings_.nodes);
  if (elastic()) take_layout(plan, pick_some);
  return !plan.hosts.empty();
}

bool Supervisor::pass_preflight(const std::vector<Host>& hosts) {
  std::vector<Host> unknown;
  for (const Host& host : hosts)
    if (fit_.insert(host.name).second) unknown.push_back(host);
  if (unknown.empty()) return true;
  enter(State::preflight);
  const std::vector<UnfitHost> unfit = world_.unfit_of(unknown);
  for (const auto& [host, why] : unfit) {
    fit_.erase(host);
    unfit_.insert(host);
    world_.say(fmt::format("{} does not pass the preflight: {}", host, why));
    world_.notify("preflight_failed", Json::Object{{"host", host}, {"why", why}});
  }
  return unfit.empty();
}

std::string Supervisor::too_few_hosts() const {
  if (!why_no_list_.empty()) return why_no_list_;
  Index out = 0;
  for (const NodeState& state : node_states(history_, world_.date()))
    out += state.quarantined() ? 1 : 0;
  return fmt::format(
      "too few healthy hosts: {} are needed, {} are listed, {} are in quarantine (trireme nodes), "
      "{} failed the preflight",
      elastic() ? settings_.min_nodes : settings_.nodes, listed_, out, unfit_.size());
}

void Supervisor::take_releases() {
  for (const std::string& host : world_.released_hosts()) {
    const Release line{host, world_.date(), 0};
    world_.append(to_json(line));
    history_.add(line);
    fit_.erase(host);  // it may have been repaired, or exchanged
    unfit_.erase(host);
  }
}

/// Writes what hosts are blamed for, and says which are in quarantine since `before`.
void Supervisor::show_nodes(const std::vector<NodeState>& before) {
  const auto states = node_states(history_, world_.date());
  world_.show_nodes(states);
  for (const NodeState& state : states) {
    if (state.lost) fit_.erase(state.host);  // when it returns, it is checked again
    const auto same = [&](const NodeState& each) {
      return each.host == state.host && each.quarantined();
    };
    if (!state.quarantined() || std::any_of(before.begin(), before.end(), same)) continue;
    enter(State::quarantine);
    world_.say(fmt::format("{} is in quarantine: {}", state.host, state.reasons.back()));
    world_.notify("quarantine", Json::Object{{"host", state.host}, {"points", state.points}});
  }
}

}  // namespace trireme::supervisor
