// Growth: an attempt on fewer hosts than --nodes stops when a larger layout is worth a restart.
#include <algorithm>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/watch.h"

namespace trireme::supervisor {

bool is_worth_a_restart(const Growth& growth) {
  if (growth.ranks <= growth.ranks_now || growth.ranks_now < 1) return false;
  const double more = static_cast<double>(growth.ranks) / static_cast<double>(growth.ranks_now) - 1;
  return more * growth.remaining_s > 3 * (growth.save_s + growth.start_s);
}

/// Looks for hosts that have come back, at most once in --grow-interval, and asks the job to save
/// and end where they are worth it.
void Supervisor::consider_growth(Watch& watch, const AttemptPlan& plan) {
  const double now = world_.now();
  if (!settings_.grow || !plan.fewer || watch.asked || watch.first_step < 0) return;
  const bool is_due = now - watch.looked_for_hosts >= settings_.grow_interval_s;
  if (!is_due && !watch.asks_to_grow) return;
  AttemptPlan larger;
  bool found = false;
  try {
    if (is_due) take_releases();
    watch.looked_for_hosts = now;
    // The job is watched while the program is asked.
    watch.asks_to_grow = !with_layouts([&] { found = choose_hosts(larger); });
    if (watch.asks_to_grow || !found) return;
  } catch (const Error& error) {  // a file of hosts that is just being written, for example
    watch.asks_to_grow = false;
    world_.say(std::string("--grow: ") + error.what());
    return;
  }
  const Index last = world_.iterations();
  Growth growth;
  growth.ranks_now = plan.ranks;
  growth.ranks = larger.ranks;
  growth.remaining_s = static_cast<double>(std::max<Index>(0, last - watch.facts.last_step)) *
                       watch.pace.mean_step_s();
  growth.save_s = watch.pace.save_s();
  growth.start_s = watch.first_step - watch.began;
  if (!is_worth_a_restart(growth)) return;
  world_.announce(
      "growing",
      fmt::format("hosts are back: asks the job to save and end, to continue as {} in place "
                  "of {}",
                  larger.layout.text(), plan.layout.text()),
      Json::Object{{"layout", larger.layout.text()}});
  watch.facts.grows = watch.asked = true;
  watch.asked_at = now;
  ask(watch);
}

}  // namespace trireme::supervisor
