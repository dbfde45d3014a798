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
  bool said = false;
  while (!pick_listed_hosts(plan)) {
    const double least = why_no_list_.empty() ? 0 : until_list_is_whole_s;
    const double now = world_.now(), until = began + std::max(settings_.wait_nodes_s, least);
    if (!said && settings_.wait_nodes_s > 0 && least == 0) {
      said = true;
      world_.say(fmt::format(
          "waits up to {:.0f} s for healthy hosts: {} needed, {} listed", settings_.wait_nodes_s,
          settings_.min_nodes > 0 ? settings_.min_nodes : settings_.nodes, listed_.size()));
    }
    if (now >= until || !wait(std::min(1.0, until - now))) return false;
    no_hosts_s_ += world_.now() - now;
  }
  plan.attempt = history_.attempts.empty() ? 1 : history_.attempts.back().began.attempt + 1;
  const std::size_t first = std::max(history_.first, history_.given);
  for (std::size_t i = 0; i < history_.attempts.size(); ++i)
    if (progressed(history_.attempts[i])) (i < first ? plan.has_saved : plan.resumes) = true;
  plan.step = step_to_go_back_to(plan.resumes);
  if (settings_.auto_saves) plan.saves = choose_saves(history_, settings_.save_seconds);
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

/// Hosts that pass the preflight. False: too few, or it was asked to stop.
bool Supervisor::pick_healthy_hosts(AttemptPlan& plan) {
  take_releases();
  do {
    bool found = false;
    while (await_layouts([&] { found = choose_hosts(plan); }) && found) {
      if (pass_preflight(plan.hosts)) return stop_ == 0;
      if (stop_ != 0) return false;
    }
  } while (stop_ == 0 && lift_quarantines());
  return false;
}

/// Those of the last attempt where they can be had, and the layout on them; without `left` where
/// others are at hand. False: too few.
bool Supervisor::choose_hosts(AttemptPlan& plan, const std::string& left) {
  plan.ranks = settings_.nodes * settings_.ranks_per_node;
  plan.hosts.clear();
  no_layout_ = false;
  std::vector<Host> hosts = listed_ = world_.hosts();
  if (hosts.empty() && !settings_.has_hosts) return true;  // this machine
  std::vector<std::string> before;
  if (!history_.attempts.empty()) before = history_.attempts.back().began.nodes;
  if (swaps_hosts(history_)) std::reverse(before.begin(), before.end());
  std::erase_if(hosts, [&](const Host& host) { return unfit_.contains(host.name); });
  const auto states = node_states(history_, world_.date());
  std::set<std::string> to_leave = hosts_to_leave(history_, world_.date());
  if (!left.empty()) to_leave.insert(left);
  hosts = without_left(hosts, states, to_leave);
  const auto pick_some = [&](Index count) { return pick_hosts(hosts, states, before, count); };
  plan.hosts = pick_some(settings_.nodes);
  if (elastic()) take_layout(plan, pick_some);
  return !plan.hosts.empty();
}

int Supervisor::end_without_hosts() {
  if (stop_ != 0) return end(code::stopped, "stopped before an attempt began");
  if (no_layout_)
    return end(code::configuration,
               "no layout can run on the hosts at hand: " +
                   (refused_.empty() ? settings_.program + " calls none legal" : refused_));
  return end(code::no_nodes, too_few_hosts());
}

std::string Supervisor::too_few_hosts() const {
  if (!why_no_list_.empty()) return why_no_list_;
  Index out = 0;
  for (const NodeState& state : node_states(history_, world_.date()))
    out += state.quarantined() ? 1 : 0;
  return fmt::format(
      "too few healthy hosts: {} are needed, {} are listed, {} are in quarantine (trireme nodes), "
      "{} failed the preflight",
      elastic() ? settings_.min_nodes : settings_.nodes, listed_.size(), out, unfit_.size());
}

void Supervisor::take_releases() {
  for (const std::string& host : world_.released_hosts()) {
    release(host);
    fit_.erase(host);  // it may have been repaired, or exchanged
    unfit_.erase(host);
    world_.forget_release(host);
  }
}

void Supervisor::release(const std::string& host) {
  const Release line{host, world_.date(), 0};
  world_.append(to_json(line));
  history_.add(line);
  long_checked_.erase(host);
}

void Supervisor::write_nodes() {
  std::vector<UnfitHost> unfit;
  for (const auto& [host, why] : unfit_) unfit.push_back({host, why});
  world_.show_nodes(node_states(history_, world_.date()), unfit);
}

/// Writes what hosts are blamed for, and says which are in quarantine since `before`.
void Supervisor::show_nodes(const std::vector<NodeState>& before) {
  write_nodes();
  for (const NodeState& state : node_states(history_, world_.date())) {
    const auto same = [&](const NodeState& each) {
      return each.host == state.host && each.quarantined();
    };
    if (!state.quarantined() || std::any_of(before.begin(), before.end(), same)) continue;
    fit_.erase(state.host);
    long_checked_.erase(state.host);
    world_.announce("quarantine",
                    fmt::format("{} is in quarantine: {}", state.host, state.reasons.back()),
                    Json::Object{{"host", state.host}, {"points", state.points}});
  }
}

}  // namespace trireme::supervisor
