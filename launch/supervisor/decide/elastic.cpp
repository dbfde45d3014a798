// Attempts on fewer hosts than --nodes: which layout they take, and what is said of it.
#include <algorithm>

#include <fmt/format.h>

#include "launch/supervisor/decide/state_machine.h"

namespace trireme::supervisor {

/// Calls `use`, which asks for layouts. False: the program is being asked for what was missing, and
/// what `use` has found is void.
bool Supervisor::with_layouts(const std::function<void()>& use) {
  if (asked_) {
    const auto answer = asked_->poll();
    if (!answer) return false;
    layouts_.answer(asked_for_, *answer);
    asked_.reset();
  }
  layouts_.drop_question();
  use();
  if (!layouts_.question()) return true;
  asked_for_ = *layouts_.question();
  const std::vector<std::string> as_given;
  asked_ = world_.check_layouts(
      asked_for_.choice == 0 ? as_given : settings_.also_layouts[asked_for_.choice - 1],
      asked_for_.ranks);
  return false;
}

/// As with_layouts(), and waits for the answers; between attempts. False: it was asked to stop.
bool Supervisor::await_layouts(const std::function<void()>& use) {
  while (!with_layouts(use))
    if (!look_between_attempts(look_s)) {
      asked_.reset();
      return false;
    }
  return true;
}

/// What is wrong with --min-nodes and --also-layout, found out before anything starts; empty:
/// nothing.
std::string Supervisor::why_not_elastic() {
  if (!elastic()) return "";
  const Index all = settings_.nodes * settings_.ranks_per_node;
  const Index few = settings_.min_nodes * settings_.ranks_per_node;
  const auto whole = layouts_.at(0, all);
  if (!whole)
    return fmt::format(
        "--min-nodes {}: {} gives no answer to --check-layout {}, as programs built on run() do",
        settings_.min_nodes, settings_.program, all);
  if (!whole->legal)
    return fmt::format("{} cannot run on {} rank{}: {}", settings_.program, all,
                       all == 1 ? "" : "s", whole->problem);
  for (std::size_t choice = 1; choice <= settings_.also_layouts.size(); ++choice)
    if (!layouts_.largest_of(choice, all)) {
      const auto asked = layouts_.at(choice, all);
      return fmt::format("--also-layout \"{}\": no number of ranks up to {} is legal: {}",
                         fmt::join(settings_.also_layouts[choice - 1], " "), all,
                         asked ? asked->problem : "the program gives no answer");
    }
  if (!layouts_.largest(few)) {
    const auto asked = layouts_.at(0, few);
    return fmt::format(
        "--min-nodes {}: no number of ranks up to {} is legal; give more --min-nodes, or "
        "--also-layout{}",
        settings_.min_nodes, few, asked ? ": " + asked->problem : "");
  }
  return "";
}

/// The layout of the hosts that were picked; where those are none, that of as many as can be had.
/// Hosts that it does not need stay out.
void Supervisor::take_layout(AttemptPlan& plan, const PickSome& pick_some) {
  const Index per_host = settings_.ranks_per_node;
  Index hosts = settings_.nodes;
  plan.fewer = plan.hosts.empty();
  while (plan.hosts.empty() && --hosts >= settings_.min_nodes) plan.hosts = pick_some(hosts);
  if (plan.hosts.empty()) return;
  const auto layout =
      plan.fewer ? layouts_.largest(hosts * per_host) : layouts_.at(0, hosts * per_host);
  plan.hosts.clear();
  no_layout_ = !layout;
  if (!layout) return;
  plan.layout = *layout;
  plan.ranks = layout->ranks;
  plan.slots = per_host;
  plan.idle = hosts * per_host - plan.ranks;
  plan.options.clear();
  if (layout->choice > 0) plan.options = settings_.also_layouts[layout->choice - 1];
  plan.hosts = pick_some((plan.ranks + per_host - 1) / per_host);
}

/// After the program has refused a layout that it had called legal, as where memory is short: the
/// next smaller one is tried. False: it has not.
bool Supervisor::refuse_if_it_cannot_run(const AttemptPlan& plan) {
  if (!plan.fewer || history_.attempts.back().ended->cause != Cause::configuration) return false;
  layouts_.refuse(plan.layout);
  refused_ = history_.attempts.back().ended->error;
  world_.say(plan.layout.text() + " cannot run here: another layout is tried");
  return true;
}

/// " (pp1 dp1 tp2 on 1 host ...)" for the line that an attempt begins with; empty: nothing special.
std::string Supervisor::describe_layout(const AttemptPlan& plan) {
  if (!plan.fewer) return plan.layout.legal ? " (" + plan.layout.text() + ")" : "";
  const auto whole = layouts_.at(0, settings_.nodes * settings_.ranks_per_node);
  return fmt::format(
      " ({} in place of {}, on {} of {} hosts{}: results agree within the layout tolerance, not in "
      "bits)",
      plan.layout.text(), whole ? whole->text() : "?", plan.hosts.size(), settings_.nodes,
      plan.idle > 0 ? fmt::format(", {} slots idle", plan.idle) : "");
}

}  // namespace trireme::supervisor
