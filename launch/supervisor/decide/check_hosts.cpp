// The preflight of hosts: before an attempt uses them for the first time or again, and thoroughly
// before a quarantine is lifted; and whether they answer, after an attempt has lost one.
#include <algorithm>

#include <fmt/format.h>

#include "launch/supervisor/decide/state_machine.h"

namespace trireme::supervisor {
namespace {

constexpr double between_long_s = 60;  // where one could not be made

}  // namespace

/// Nothing: it was asked to stop, or hosts are not checked in this way.
std::optional<Fitness> Supervisor::await_preflight(const std::vector<Host>& hosts, bool thorough) {
  const auto check = world_.preflight(hosts, thorough);
  if (check == nullptr) return std::nullopt;
  const double asked_at = world_.now();
  std::optional<Fitness> found;
  while (!(found = check->poll()) && look_between_attempts(look_s)) {
  }
  preflight_s_ += world_.now() - asked_at;
  return found;
}

/// Hosts that do not answer, where mpirun has lost one that it does not name; none where the
/// supervisor was asked to stop before they were known.
std::vector<std::string> Supervisor::await_unreachable(const Evidence& evidence) {
  if (!evidence.daemon_lost || !evidence.lost_host.empty()) return {};
  const auto question = world_.find_unreachable();
  std::optional<std::vector<std::string>> found;
  while (!(found = question->poll()) && look_between_attempts(look_s)) {
  }
  return found.value_or(std::vector<std::string>());
}

/// Those of an attempt that are not known to be fit. With them the hosts that may replace them, so
/// that none has to be checked while a lost host is replaced.
std::vector<Host> Supervisor::not_checked(const std::vector<Host>& hosts) const {
  std::vector<Host> found;
  for (const Host& host : hosts)
    if (!fit_.contains(host.name)) found.push_back(host);
  if (found.empty()) return found;
  const auto states = node_states(history_, world_.date());
  for (const Host& host : listed_) {
    const auto same = [&](const auto& each) { return each.name == host.name; };
    const auto was_lost = [&](const NodeState& state) {
      return state.host == host.name && (state.lost || state.quarantined());
    };
    if (!fit_.contains(host.name) && !unfit_.contains(host.name) &&
        std::none_of(hosts.begin(), hosts.end(), same) &&
        std::none_of(states.begin(), states.end(), was_lost))
      found.push_back(host);
  }
  return found;
}

/// False: one of them does not pass.
bool Supervisor::pass_preflight(const std::vector<Host>& hosts) {
  const std::vector<Host> unknown = not_checked(hosts);
  if (unknown.empty()) return true;
  const auto found = await_preflight(unknown, false);
  if (!found) return stop_ == 0;
  if (!found->not_checked.empty()) {
    // They are checked before the next attempt: the fault may be that of the check.
    world_.announce("preflight_not_made",
                    "hosts are used without a preflight: " + found->not_checked,
                    Json::Object{{"why", found->not_checked}});
    return true;
  }
  for (const Host& host : unknown) fit_.insert(host.name);
  for (const auto& [host, why] : found->unfit) {
    fit_.erase(host);
    unfit_[host] = why;
    world_.announce("preflight_failed",
                    fmt::format("{} does not pass the preflight: {}", host, why),
                    Json::Object{{"host", host}, {"why", why}});
  }
  if (!found->unfit.empty()) write_nodes();
  return std::none_of(hosts.begin(), hosts.end(),
                      [&](const Host& host) { return unfit_.contains(host.name); });
}

/// Hosts in quarantine with which there would be enough.
std::vector<Host> Supervisor::worth_a_long_preflight() const {
  if (world_.now() < next_long_) return {};
  const auto states = node_states(history_, world_.date());
  std::vector<Host> out;
  Index others = 0;
  for (const Host& host : listed_) {
    if (unfit_.contains(host.name)) continue;
    const bool quarantined = std::any_of(states.begin(), states.end(), [&](const NodeState& state) {
      return state.host == host.name && state.quarantined();
    });
    if (!quarantined)
      ++others;
    else if (!long_checked_.contains(host.name))
      out.push_back(host);
  }
  const Index least = elastic() ? settings_.min_nodes : settings_.nodes;
  if (others + std::ssize(out) < least) out.clear();
  return out;
}

/// Where hosts are too few, those leave the quarantine that pass the long preflight. False: none.
bool Supervisor::lift_quarantines() {
  const std::vector<Host> hosts = worth_a_long_preflight();
  if (hosts.empty()) return false;
  const auto found = await_preflight(hosts, true);
  if (!found) return false;
  if (!found->not_checked.empty()) {  // that says nothing about the hosts
    next_long_ = world_.now() + between_long_s;
    world_.announce("preflight_not_made",
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
      world_.say(fmt::format("{} stays in quarantine: {}", host.name, bad->why));
      continue;
    }
    release(host.name);
    fit_.insert(host.name);
    world_.announce("quarantine_lifted",
                    host.name + " passes the long preflight: its quarantine is lifted",
                    Json::Object{{"host", host.name}});
    lifted = true;
  }
  if (lifted) write_nodes();
  return lifted;
}

}  // namespace trireme::supervisor
