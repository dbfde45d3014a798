// --on-straggler replace: a host with a rank that stays slow is left while a spare can take its
// place. Limits keep it from replacing one host after another for what is no host's fault.
#include <algorithm>

#include <fmt/format.h>

#include "launch/supervisor/decide/watch.h"

namespace trireme::supervisor {
namespace {

// Each look judges the last 20 steps: slow in all looks over so many means for 60.
constexpr Index slow_steps = 40;
constexpr Index most_in_window = 3;      // replacements in 24 hours
constexpr double look_for_spare_s = 60;  // again, where none was there

/// Hosts that have taken the place of a slow one.
std::set<std::string> heirs_of_stragglers(const History& history) {
  std::set<std::string> heirs;
  for (std::size_t i = 0; i + 1 < history.attempts.size(); ++i) {
    const Attempt& attempt = history.attempts[i];
    if (!attempt.ended || attempt.ended->cause != Cause::replacement) continue;
    const auto& before = attempt.began.nodes;
    const auto& after = history.attempts[i + 1].began.nodes;
    for (const Leave& leave : history.leaves)
      for (std::size_t place = 0; place < std::min(before.size(), after.size()); ++place)
        if (leave.slow && before[place] == leave.host && after[place] != leave.host)
          heirs.insert(after[place]);
  }
  return heirs;
}

}  // namespace

/// Empty: it may be replaced.
std::string Supervisor::why_it_stays(const Watch& watch, const SlowHost& slow) const {
  if (heirs_of_stragglers(history_).contains(slow.host))
    return "the host before it was slow at this place too: the program or the data may be why";
  const Index now = world_.date();
  if (std::count_if(history_.leaves.begin(), history_.leaves.end(), [&](const Leave& leave) {
        return leave.slow && now - leave.at <= quarantine_window_s;
      }) >= most_in_window)
    return fmt::format("{} slow hosts were replaced within 24 hours", most_in_window);
  const Index steps = std::max<Index>(0, world_.iterations() - watch.facts.last_step);
  const double remaining_s = static_cast<double>(steps) * watch.pace.mean_step_s();
  const double cost_s = watch.pace.save_s() + watch.first_step - watch.began;
  if (world_.iterations() >= 0 && remaining_s * (1 - 1 / slow.ratio) <= cost_s)
    return "a restart costs more than it gains";
  return "";
}

/// Leaves a host that was slow in all looks for long enough.
void Supervisor::consider_stragglers(Watch& watch, const AttemptPlan& plan) {
  if (!settings_.replace_stragglers) return;
  const std::vector<SlowHost> slow = world_.slow_hosts();
  std::erase_if(watch.slow_since, [&](const auto& since) {
    return std::none_of(slow.begin(), slow.end(),
                        [&](const SlowHost& each) { return each.host == since.first; });
  });
  for (const SlowHost& each : slow) {
    const Index since =
        watch.slow_since.try_emplace(each.host, watch.facts.last_step).first->second;
    if (watch.facts.last_step - since < slow_steps) continue;
    std::string stays = why_it_stays(watch, each);
    if (stays.empty()) {
      const double now = world_.now();
      if (watch.no_spare.contains(each.host) &&
          now - watch.no_spare.at(each.host) < look_for_spare_s)
        continue;
      const auto can = can_do_without(plan, each.host);  // reads the list of hosts
      if (!can) return;
      if (!*can) {
        watch.no_spare[each.host] = now;
        stays = "no spare can take its place";
      }
    }
    if (stays.empty()) {
      const Leave line{each.host, world_.date(), each.why, true};
      world_.append(to_json(line));
      history_.add(line);
      return leave(watch, line);
    }
    if (watch.slow_said.insert(each.host).second)
      world_.say(fmt::format("{}: {}: it stays: {}", each.host, each.why, stays));
  }
}

}  // namespace trireme::supervisor
