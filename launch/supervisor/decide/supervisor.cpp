#include "launch/supervisor/decide/supervisor.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/interventions.h"

namespace trireme::supervisor {
namespace {

std::vector<std::string> names_of(const std::vector<Host>& hosts) {
  std::vector<std::string> names;
  for (const Host& host : hosts) names.push_back(host.name);
  return names;
}

/// It was to start from an older step, and ended before it had loaded that: newer ones are still
/// there.
bool has_not_gone_back(const Attempt& attempt) {
  return attempt.began.went_back && attempt.ended->first_step == 0 &&
         attempt.ended->started.step < 0;
}

}  // namespace

Supervisor::Supervisor(Launcher& launcher, RunFiles& files, Settings settings, History history)
    : session_(launcher, files, std::move(settings), std::move(history)),
      launcher_(launcher),
      files_(files),
      settings_(session_.settings),
      history_(session_.history),
      layouts_(session_),
      hosts_(session_, layouts_) {}

std::string new_run_id(Index date, Index pid) { return fmt::format("{:x}-{:x}", date, pid); }

int Supervisor::run() {
  begin();
  std::string why;
  if (!layouts_.await([&] { why = layouts_.why_not_elastic(); })) return end(hosts_.why_none());
  if (!why.empty()) return end({code::configuration, why});
  for (;;) {
    AttemptPlan plan;
    if (!hosts_.pick(plan)) return end(hosts_.why_none());
    plan = plan_on(std::move(plan));
    const Facts facts = attempt(plan);
    const Decision decision = decide(facts, history_, settings_.max_restarts);
    if (decision.exit_code == code::configuration && layouts_.refuse_if_it_cannot_run(plan))
      continue;
    if (!decision.restart) return end({decision.exit_code, decision.why});
    if (!decision.why.empty()) launcher_.log(decision.why);
    if (decision.delay_s > 0) launcher_.log(fmt::format("waits {:.0f} s", decision.delay_s));
    if (!session_.wait(decision.delay_s)) return end({code::stopped, "stopped between attempts"});
  }
}

void Supervisor::begin() {
  if (history_.ignored > 0)
    launcher_.log(fmt::format("{} damaged lines of the ledger are ignored", history_.ignored));
  close_torn_attempt();
  const std::string run = history_.run.empty() ? settings_.run : history_.run;
  const SupervisionBegan line{
      launcher_.date(),  settings_.pid,          settings_.host,    run,
      settings_.program, settings_.quarantine_s, settings_.metrics, settings_.ckpt_step};
  session_.record(line);
}

/// Writes the end of an attempt whose supervisor died, as far as it is known.
void Supervisor::close_torn_attempt() {
  if (history_.attempts.empty() || history_.attempts.back().ended) return;
  const AttemptBegan& began = history_.attempts.back().began;
  const std::vector<Index> durable = files_.durable_steps();
  AttemptEnded line;
  line.attempt = began.attempt;
  line.at = launcher_.date();
  line.cause = Cause::supervisor_lost;
  line.signature = name(line.cause);
  line.started = files_.started_from(line.attempt);
  line.durable = line.last_step = durable.empty() ? 0 : durable.front();
  // Without snapshots in memory PROGRAM does not say from where it has started.
  if (began.went_back && files_.has_saved_since(began.at)) line.first_step = began.resumed + 1;
  session_.record(line);
  launcher_.log(fmt::format("continues run {}, whose supervisor died in attempt {}", history_.run,
                            began.attempt));
}

/// Returns the plan of the next attempt on these hosts.
AttemptPlan Supervisor::plan_on(AttemptPlan plan) {
  plan.attempt = history_.attempts.empty() ? 1 : history_.attempts.back().began.attempt + 1;
  const std::size_t first = std::max(history_.first, history_.given);
  for (std::size_t i = 0; i < history_.attempts.size(); ++i)
    if (progressed(history_.attempts[i])) (i < first ? plan.has_saved : plan.resumes) = true;
  plan.step = step_to_go_back_to(session_, plan.resumes);
  if (settings_.auto_saves) plan.saves = choose_saves(history_, settings_.save_seconds);
  return plan;
}

Facts Supervisor::attempt(const AttemptPlan& plan) {
  AttemptWatch watch = begin_attempt(plan);
  watch_until_it_ends(watch);
  layouts_.drop_question();
  launcher_.end_all();
  watch.update(launcher_.observe(0), launcher_.now());  // what was written until the end

  Facts facts = watch.facts_at_end();
  last_ended_ = watch.ended();
  facts.unreachable = hosts_.await_unreachable(facts.evidence);
  const auto states_before = session_.nodes();
  const AttemptEnded ended = watch.account(facts);
  session_.record(ended);
  launcher_.notify(
      "attempt_ended",
      fmt::format("attempt {} ended: {} (exit code {}), step {}, newest durable step {}{}",
                  ended.attempt, name(ended.cause), ended.code, ended.last_step, ended.durable,
                  ended.error.empty() ? "" : ": " + ended.error),
      to_json(ended));
  hosts_.update(ended, plan, states_before);
  return facts;
}

void Supervisor::watch_until_it_ends(AttemptWatch& watch) {
  const auto interventions = interventions_in(watch, session_, hosts_, layouts_);
  while (!watch.launcher_ended() && !watch.must_end()) {
    const double looked_at = launcher_.now();
    watch.update(launcher_.observe(most_wait_s), looked_at);
    for (const auto& each : interventions)
      if (watch.trains())
        if (const auto move = each->consider(watch)) watch.move(*move);
  }
}

/// Writes the line of the attempt, and starts mpirun.
AttemptWatch Supervisor::begin_attempt(const AttemptPlan& plan) {
  const std::string loss = launcher_.loss_of_run();
  require(loss.empty(), loss, ": no attempt is started");
  const std::vector<Index> durable = files_.durable_steps();
  const Index resumed = plan.step >= 0 ? plan.step : durable.empty() ? 0 : durable.front();
  AttemptWatch watch(session_, plan, resumed);
  const Hosts::Waited waited = hosts_.take_waited();
  const AttemptBegan began{plan.attempt,
                           launcher_.date(),
                           names_of(plan.hosts),
                           plan.ranks,
                           settings_.spares * settings_.ranks_per_node + plan.idle,
                           resumed,
                           watch.began() - (last_ended_ < 0 ? session_.began : last_ended_),
                           plan.layout.legal ? plan.layout.text() : "",
                           plan.fewer,
                           plan.slots,
                           waited.no_hosts_s,
                           waited.preflight_s,
                           plan.step >= 0,
                           settings_.auto_saves ? std::optional(plan.saves) : std::nullopt};
  session_.record(began);  // first: no other attempt may ever get this number
  start(plan, resumed);
  launcher_.notify("attempt_began",
                   fmt::format("attempt {}: {} rank{}{}{}{}", plan.attempt, plan.ranks,
                               plan.ranks == 1 ? "" : "s", layouts_.describe(plan),
                               describe_origin(plan, resumed),
                               began.saves ? ", saves " + to_text(*began.saves) : ""),
                   to_json(began));
  return watch;
}

/// Where PROGRAM keeps snapshots in memory, its ranks find out which step is the newest.
std::string Supervisor::describe_origin(const AttemptPlan& plan, Index resumed) const {
  if (resumed == 0) return "";
  const bool may_be_newer = settings_.snapshots && plan.step < 0;
  return fmt::format(", from {}step {}{}", may_be_newer ? "durable " : "", resumed,
                     may_be_newer ? " or a newer one in memory" : "");
}

/// Throws where mpirun cannot be started, or the disk is full; the ledger says so then.
void Supervisor::start(const AttemptPlan& plan, Index resumed) {
  try {
    launcher_.start(plan);
  } catch (const std::exception& error) {  // also of std::filesystem
    AttemptEnded line;
    line.attempt = plan.attempt;
    line.at = launcher_.date();
    line.code = code::failed;
    line.cause = Cause::failed;
    line.signature = name(line.cause);
    line.error = error.what();
    line.last_step = line.durable = resumed;
    session_.record(line);
    throw;
  }
}

int Supervisor::end(const End& end) {
  const auto& [exit_code, why] = end;
  const SupervisionEnded line{launcher_.date(), exit_code, why};
  session_.record(line);
  const bool failed = exit_code != code::done && exit_code != code::stopped;
  launcher_.notify(exit_code == code::done ? "done" : "ended",
                   fmt::format("{} (exit code {}){}", why, exit_code,
                               failed && !history_.attempts.empty()
                                   ? "; the last output is in " +
                                         files_.log_of(history_.attempts.back().began.attempt)
                                   : ""),
                   to_json(line));
  return exit_code;
}

Index step_to_go_back_to(const Session& session, bool resumes) {
  const History& history = session.history;
  if (history.attempts.empty() || !history.attempts.back().ended) return -1;
  const Attempt& last = history.attempts.back();
  const bool of_the_user = !resumes && !session.settings.ckpt_step.empty();
  const bool numerics = last.ended->cause == Cause::numerics;
  const bool since_an_end = history.attempts.size() > history.first;
  if (of_the_user || (numerics && !since_an_end)) return -1;
  if (numerics) {
    // Also where there is one step only: snapshots in memory may be newer.
    const std::vector<Index> durable = session.files.durable_steps();
    return durable.empty() ? -1 : durable[durable.size() > 1 ? 1 : 0];
  }
  if (has_not_gone_back(last)) return session.files.newest_durable_up_to(last.began.resumed);
  if (last.ended->cause != Cause::corruption || !last.ended->clean) return -1;
  const Index clean = *last.ended->clean;
  const Index step = clean < 0 ? -1 : session.files.newest_durable_up_to(clean);
  if (step < 0)
    session.launcher.log("no durable step is known to be clean: continues from the newest");
  else
    session.launcher.log(
        fmt::format("continues from step {}: step {}, computed twice, was clean", step, clean));
  return step;
}

std::string name_of_request(int signal) {
  return signal == SIGKILL ? "trireme stop --now" : name_of_signal(signal);
}

Session::Session(Launcher& the_launcher, RunFiles& the_files, Settings the_settings,
                 History the_history)
    : launcher(the_launcher),
      files(the_files),
      settings(std::move(the_settings)),
      history(std::move(the_history)),
      began(the_launcher.now()) {}

void Session::add_signals(const std::vector<int>& signals) {
  for (const int signal : signals) {
    if (signal == SIGKILL) {
      force = signal;
      stop = stop == 0 ? signal : stop;
    } else if (stop == 0) {
      stop_with(signal);
    } else if (signal != SIGUSR1 && launcher.now() - stop_since >= same_request_s) {
      force = signal;
    }
  }
}

bool Session::is_time_over() const {
  return settings.time_limit_s > 0 && launcher.now() - began >= settings.time_limit_s;
}

void Session::stop_with(int signal) {
  stop = signal;
  stop_since = launcher.now();
}

bool Session::observe(double seconds) {
  add_signals(launcher.observe(std::clamp(seconds, 0.0, most_wait_s)).signals);
  if (is_time_over() && stop == 0) stop_with(SIGUSR1);  // as where it is over during an attempt
  return stop == 0;
}

bool Session::wait(double seconds) {
  const double until = launcher.now() + seconds;
  do {
    if (!observe(until - launcher.now())) return false;
  } while (launcher.now() < until);
  return true;
}

}  // namespace trireme::supervisor
