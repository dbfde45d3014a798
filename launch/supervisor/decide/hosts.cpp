#include "launch/supervisor/decide/hosts.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/judge.h"

namespace trireme::supervisor {
namespace {

constexpr double between_long_s = 60;  // preflights, where one could not be made

bool is_quarantined(const std::vector<NodeState>& states, const std::string& host) {
  return std::any_of(states.begin(), states.end(), [&](const NodeState& state) {
    return state.host == host && state.quarantined();
  });
}
bool was_lost(const std::vector<NodeState>& states, const std::string& host) {
  return std::any_of(states.begin(), states.end(), [&](const NodeState& state) {
    return state.host == host && (state.lost || state.quarantined());
  });
}

}  // namespace

bool contains(const std::vector<Host>& hosts, const std::string& name) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const Host& host) { return host.name == name; });
}

bool Hosts::pick(AttemptPlan& plan) {
  constexpr double until_list_is_whole_s = 10;
  const double began = launcher_.now();
  bool said = false;
  while (!pick_listed(plan)) {
    const double least = why_no_list_.empty() ? 0 : until_list_is_whole_s;
    const double now = launcher_.now(), until = began + std::max(settings_.wait_nodes_s, least);
    if (!said && settings_.wait_nodes_s > 0 && least == 0) {
      said = true;
      launcher_.log(fmt::format(
          "waits up to {:.0f} s for healthy hosts: {} needed, {} listed", settings_.wait_nodes_s,
          settings_.min_nodes > 0 ? settings_.min_nodes : settings_.nodes, listed_.size()));
    }
    if (now >= until || !session_.wait(std::min(1.0, until - now))) return false;
    waited_.no_hosts_s += launcher_.now() - now;
  }
  return true;
}

/// As pick_healthy(); a list of hosts that cannot be read, as it may be half written, is said once.
bool Hosts::pick_listed(AttemptPlan& plan) {
  try {
    const bool found = pick_healthy(plan);
    why_no_list_.clear();
    return found;
  } catch (const Error& error) {
    if (why_no_list_ != error.what()) launcher_.log(error.what());
    why_no_list_ = error.what();
    return false;
  }
}

/// Picks hosts that pass the preflight. False: too few, or it was asked to stop.
bool Hosts::pick_healthy(AttemptPlan& plan) {
  apply_releases();
  do {
    bool found = false;
    while (layouts_.await([&] { found = choose(plan); }) && found) {
      if (pass_preflight(plan.hosts)) return session_.stop == 0;
      if (session_.stop != 0) return false;
    }
  } while (session_.stop == 0 && lift_quarantines());
  return false;
}

bool Hosts::choose(AttemptPlan& plan, const std::string& left) {
  plan.ranks = settings_.nodes * settings_.ranks_per_node;
  plan.hosts.clear();
  no_layout_ = false;
  std::vector<Host> hosts = listed_ = launcher_.hosts();
  if (hosts.empty() && !settings_.has_hosts) return true;  // this machine
  std::vector<std::string> before;
  if (!history_.attempts.empty()) before = history_.attempts.back().began.nodes;
  if (swaps_hosts(history_)) std::reverse(before.begin(), before.end());
  std::erase_if(hosts, [&](const Host& host) { return unfit_.contains(host.name); });
  const auto states = session_.nodes();
  std::set<std::string> to_leave = hosts_to_leave(history_, launcher_.date());
  if (!left.empty()) to_leave.insert(left);
  hosts = without(hosts, states, to_leave);
  const auto pick_some = [&](Index count) { return pick_hosts(hosts, states, before, count); };
  plan.hosts = pick_some(settings_.nodes);
  if (settings_.elastic()) no_layout_ = !layouts_.choose(plan, pick_some);
  return !plan.hosts.empty();
}

/// Leaves out those of `left`, where enough others are at hand that were never lost.
std::vector<Host> Hosts::without(const std::vector<Host>& hosts,
                                 const std::vector<NodeState>& states,
                                 const std::set<std::string>& left) const {
  if (left.empty()) return hosts;
  std::vector<Host> others = hosts;
  std::erase_if(others, [&](const Host& host) { return left.contains(host.name); });
  const Index sound = std::ssize(others) -
                      std::count_if(others.begin(), others.end(),
                                    [&](const Host& host) { return was_lost(states, host.name); });
  return sound < settings_.nodes ? hosts : others;
}

std::optional<bool> Hosts::can_do_without(const AttemptPlan& plan, const std::string& host) {
  AttemptPlan next;
  bool found = false;
  try {
    if (!layouts_.with([&] { found = choose(next, host); })) return std::nullopt;
  } catch (const Error& error) {  // a file of hosts that is just being written, for example
    if (std::exchange(why_no_list_, error.what()) != error.what()) launcher_.log(why_no_list_);
    return std::nullopt;
  }
  return found && !contains(next.hosts, host) && next.ranks >= plan.ranks;
}

End Hosts::why_none() const {
  if (session_.stop != 0) return {code::stopped, "stopped before an attempt began"};
  const std::string& refused = layouts_.refused();
  if (no_layout_)
    return {code::configuration,
            "no layout can run on the hosts at hand: " +
                (refused.empty() ? settings_.program + " calls none legal" : refused)};
  return {code::no_nodes, too_few()};
}

std::string Hosts::too_few() const {
  if (!why_no_list_.empty()) return why_no_list_;
  Index out = 0;
  for (const NodeState& state : session_.nodes()) out += state.quarantined() ? 1 : 0;
  return fmt::format(
      "too few healthy hosts: {} are needed, {} are listed, {} are in quarantine (trireme nodes), "
      "{} failed the preflight",
      settings_.least_nodes(), listed_.size(), out, unfit_.size());
}

void Hosts::apply_releases() {
  for (const std::string& host : files_.released_hosts()) {
    release(host);
    fit_.erase(host);  // it may have been repaired, or exchanged
    unfit_.erase(host);
    files_.forget_release(host);
  }
}

void Hosts::release(const std::string& host) {
  const Release line{host, launcher_.date(), 0};
  session_.record(line);
  long_checked_.erase(host);
}

void Hosts::write_nodes() {
  std::vector<UnfitHost> unfit;
  for (const auto& [host, why] : unfit_) unfit.push_back({host, why});
  launcher_.show_nodes(session_.nodes(), unfit);
}

void Hosts::update(const AttemptEnded& ended, const AttemptPlan& plan,
                   const std::vector<NodeState>& before) {
  for (const Blame& blame : ended.blame)
    if (blame.points > 1) fit_.erase(blame.host);  // when it returns, it is checked again
  const bool names_a_host = std::any_of(ended.blame.begin(), ended.blame.end(),
                                        [](const Blame& blame) { return blame.points > 0; });
  if (ended.cause == Cause::node_lost && !names_a_host)  // any of them may be bad
    for (const Host& host : plan.hosts) fit_.erase(host.name);
  write_nodes();
  for (const NodeState& state : session_.nodes()) {
    if (!state.quarantined() || is_quarantined(before, state.host)) continue;
    fit_.erase(state.host);
    long_checked_.erase(state.host);
    launcher_.notify("quarantine",
                     fmt::format("{} is in quarantine: {}", state.host, state.reasons.back()),
                     Json::Object{{"host", state.host}, {"points", state.points}});
  }
}

/// Nothing: it was asked to stop, or hosts are not checked in this way.
std::optional<Fitness> Hosts::await_preflight(const std::vector<Host>& hosts, bool thorough) {
  const auto check = launcher_.preflight(hosts, thorough);
  if (check == nullptr) return std::nullopt;
  const double asked_at = launcher_.now();
  std::optional<Fitness> found;
  while (!(found = check->poll()) && session_.observe(most_wait_s)) {
  }
  waited_.preflight_s += launcher_.now() - asked_at;
  return found;
}

std::vector<std::string> Hosts::await_unreachable(const Evidence& evidence) {
  if (!evidence.daemon_lost || !evidence.lost_host.empty()) return {};
  const auto question = launcher_.find_unreachable();
  std::optional<std::vector<std::string>> found;
  while (!(found = question->poll()) && session_.observe(most_wait_s)) {
  }
  return found.value_or(std::vector<std::string>());
}

/// Returns those of an attempt that are not known to be fit. With them the hosts that may replace
/// them, so that none has to be checked while a lost host is replaced.
std::vector<Host> Hosts::not_checked(const std::vector<Host>& hosts) const {
  std::vector<Host> found;
  for (const Host& host : hosts)
    if (!fit_.contains(host.name)) found.push_back(host);
  if (found.empty()) return found;
  const auto states = session_.nodes();
  for (const Host& host : listed_) {
    if (!fit_.contains(host.name) && !unfit_.contains(host.name) && !contains(hosts, host.name) &&
        !was_lost(states, host.name))
      found.push_back(host);
  }
  return found;
}

/// False: one of them does not pass.
bool Hosts::pass_preflight(const std::vector<Host>& hosts) {
  const std::vector<Host> unknown = not_checked(hosts);
  if (unknown.empty()) return true;
  const auto found = await_preflight(unknown, false);
  if (!found) return session_.stop == 0;
  if (!found->not_checked.empty()) {
    // They are checked before the next attempt: the fault may be that of the check.
    launcher_.notify("preflight_not_made",
                     "hosts are used without a preflight: " + found->not_checked,
                     Json::Object{{"why", found->not_checked}});
    return true;
  }
  for (const Host& host : unknown) fit_.insert(host.name);
  for (const auto& [host, why] : found->unfit) {
    fit_.erase(host);
    unfit_[host] = why;
    launcher_.notify("preflight_failed",
                     fmt::format("{} does not pass the preflight: {}", host, why),
                     Json::Object{{"host", host}, {"why", why}});
  }
  if (!found->unfit.empty()) write_nodes();
  return std::none_of(hosts.begin(), hosts.end(),
                      [&](const Host& host) { return unfit_.contains(host.name); });
}

/// Returns the hosts in quarantine with which there would be enough.
std::vector<Host> Hosts::worth_a_long_preflight() const {
  if (launcher_.now() < next_long_) return {};
  const auto states = session_.nodes();
  std::vector<Host> out;
  Index others = 0;
  for (const Host& host : listed_) {
    if (unfit_.contains(host.name)) continue;
    if (!is_quarantined(states, host.name))
      ++others;
    else if (!long_checked_.contains(host.name))
      out.push_back(host);
  }
  const Index least = settings_.least_nodes();
  if (others + std::ssize(out) < least) out.clear();
  return out;
}

/// Where hosts are too few, those leave the quarantine that pass the long preflight. False: none.
bool Hosts::lift_quarantines() {
  const std::vector<Host> hosts = worth_a_long_preflight();
  if (hosts.empty()) return false;
  const auto found = await_preflight(hosts, true);
  if (!found) return false;
  if (!found->not_checked.empty()) {  // that says nothing about the hosts
    next_long_ = launcher_.now() + between_long_s;
    launcher_.notify("preflight_not_made",
                     "hosts stay in quarantine without a long preflight: " + found->not_checked,
                     Json::Object{{"why", found->not_checked}});
    return false;
  }
  bool lifted = false;
  for (const Host& host : hosts) {
    long_checked_.insert(host.name);
    const auto same = [&](const UnfitHost& each) { return each.host == host.name; };
    const auto bad = std::find_if(found->unfit.begin(), found->unfit.end(), same);
    if (bad != found->unfit.end()) {
      launcher_.log(fmt::format("{} stays in quarantine: {}", host.name, bad->why));
      continue;
    }
    release(host.name);
    fit_.insert(host.name);
    launcher_.notify("quarantine_lifted",
                     host.name + " passes the long preflight: its quarantine is lifted",
                     Json::Object{{"host", host.name}});
    lifted = true;
  }
  if (lifted) write_nodes();
  return lifted;
}

}  // namespace trireme::supervisor
