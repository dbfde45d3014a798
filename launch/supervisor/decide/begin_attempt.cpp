// The start of an attempt: its line in the ledger, then mpirun.
#include <csignal>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/watch.h"

namespace trireme::supervisor {
namespace {

std::vector<std::string> names_of(const std::vector<Host>& hosts) {
  std::vector<std::string> names;
  for (const Host& host : hosts) names.push_back(host.name);
  return names;
}

}  // namespace

Supervisor::Watch Supervisor::begin_attempt(const AttemptPlan& plan) {
  const std::string loss = world_.loss_of_run();
  require(loss.empty(), loss, ": no attempt is started");
  const std::vector<Index> durable = world_.durable_steps();
  Watch watch;
  watch.facts.code = 128 + SIGKILL;  // unless mpirun ends by itself
  watch.began = watch.last_sign = watch.looked_for_hosts = world_.now();
  watch.facts.resumed = plan.step >= 0 ? plan.step : durable.empty() ? 0 : durable.front();
  watch.facts.last_step = watch.facts.durable = watch.facts.resumed;
  watch.went_back = plan.step >= 0;
  AttemptBegan began{plan.attempt,
                     world_.date(),
                     names_of(plan.hosts),
                     plan.ranks,
                     settings_.spares * settings_.ranks_per_node + plan.idle,
                     watch.facts.resumed,
                     watch.began - (last_ended_ < 0 ? began_ : last_ended_),
                     plan.layout.legal ? plan.layout.text() : "",
                     plan.fewer,
                     plan.slots,
                     std::exchange(no_hosts_s_, 0),
                     std::exchange(preflight_s_, 0),
                     plan.step >= 0,
                     settings_.auto_saves ? std::optional(plan.saves) : std::nullopt};
  world_.append(to_json(began));  // first: no other attempt may ever get this number
  history_.add(began);
  start(plan);
  world_.announce(
      "attempt_began",
      fmt::format("attempt {}: {} rank{}{}{}{}", plan.attempt, plan.ranks,
                  plan.ranks == 1 ? "" : "s", describe_layout(plan), describe_origin(watch),
                  began.saves ? ", saves " + to_text(*began.saves) : ""),
      to_json(began));
  return watch;
}

/// Where PROGRAM keeps snapshots in memory, its ranks find out which step is the newest.
std::string Supervisor::describe_origin(const Watch& watch) const {
  if (watch.facts.resumed == 0) return "";
  const bool may_be_newer = settings_.snapshots && !watch.went_back;
  return fmt::format(", from {}step {}{}", may_be_newer ? "durable " : "", watch.facts.resumed,
                     may_be_newer ? " or a newer one in memory" : "");
}

/// Says from which snapshot the attempt has started, where it was from one.
void Supervisor::say_origin(const Watch& watch) {
  const Index attempt = history_.attempts.back().began.attempt;
  const Started started = world_.started_from(attempt);
  const bool in_memory = started.tier == "memory";
  if (!in_memory && started.tier != "local") return;
  world_.say(fmt::format("attempt {} has started from step {} ({}; durable step {})", attempt,
                         started.step, in_memory ? "in memory" : "on local disks",
                         watch.facts.resumed));
}

/// Throws where mpirun cannot be started, or the disk is full; the ledger says so then.
void Supervisor::start(const AttemptPlan& plan) {
  try {
    world_.start(plan);
  } catch (const std::exception& error) {  // also of std::filesystem
    AttemptEnded line;
    line.attempt = plan.attempt;
    line.at = world_.date();
    line.code = code::failed;
    line.cause = Cause::failed;
    line.signature = name(line.cause);
    line.error = error.what();
    line.last_step = line.durable = history_.attempts.back().began.resumed;
    world_.append(to_json(line));
    history_.add(line);
    throw;
  }
}

}  // namespace trireme::supervisor
