#include "launch/supervisor/decide/state_machine.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/watch.h"

namespace trireme::supervisor {
namespace {

constexpr double same_request_s = 2;      // a signal again within it is the same request
constexpr Index steps_of_a_deaf_job = 3;  // one that got the signal stops after one or two

/// Of a request to stop.
std::string name_of(int signal) {
  return signal == SIGKILL ? "trireme stop --now" : name_of_signal(signal);
}

}  // namespace

Supervisor::Supervisor(World& world, Settings settings, History history)
    : world_(world),
      settings_(std::move(settings)),
      history_(std::move(history)),
      began_(world.now()),
      layouts_(1 + settings_.also_layouts.size()) {}

std::string new_run_id(Index date, Index pid) { return fmt::format("{:x}-{:x}", date, pid); }

int Supervisor::run() {
  begin();
  std::string why;
  if (!await_layouts([&] { why = why_not_elastic(); })) return end_without_hosts();
  if (!why.empty()) return end(code::configuration, why);
  for (;;) {
    AttemptPlan plan;
    if (!pick(plan)) return end_without_hosts();
    const Facts facts = attempt(plan);
    const Decision decision = decide(facts, history_, settings_.max_restarts);
    if (decision.exit_code == code::configuration && refuse_if_it_cannot_run(plan)) continue;
    if (!decision.restart) return end(decision.exit_code, decision.why);
    if (!decision.why.empty()) world_.say(decision.why);
    if (decision.delay_s > 0) world_.say(fmt::format("waits {:.0f} s", decision.delay_s));
    if (!wait(decision.delay_s)) return end(code::stopped, "stopped between attempts");
  }
}

void Supervisor::begin() {
  if (history_.ignored > 0)
    world_.say(fmt::format("{} damaged lines of the ledger are ignored", history_.ignored));
  close_torn_attempt();
  const std::string run = history_.run.empty() ? settings_.run : history_.run;
  const SupervisionBegan line{
      world_.date(),     settings_.pid,          settings_.host,    run,
      settings_.program, settings_.quarantine_s, settings_.metrics, settings_.ckpt_step};
  world_.append(to_json(line));
  history_.add(line);
}

/// Writes the end of an attempt whose supervisor died, as far as it is known.
void Supervisor::close_torn_attempt() {
  if (history_.attempts.empty() || history_.attempts.back().ended) return;
  const AttemptBegan& began = history_.attempts.back().began;
  const std::vector<Index> durable = world_.durable_steps();
  AttemptEnded line;
  line.attempt = began.attempt;
  line.at = world_.date();
  line.cause = Cause::supervisor_lost;
  line.signature = name(line.cause);
  line.started = world_.started_from(line.attempt);
  line.durable = line.last_step = durable.empty() ? 0 : durable.front();
  // Without snapshots in memory PROGRAM does not say from where it has started.
  if (began.went_back && world_.has_saved_since(began.at)) line.first_step = began.resumed + 1;
  world_.append(to_json(line));
  history_.add(line);
  world_.say(fmt::format("continues run {}, whose supervisor died in attempt {}", history_.run,
                         began.attempt));
}

Facts Supervisor::attempt(const AttemptPlan& plan) {
  Watch watch = begin_attempt(plan);
  while (!watch.launcher_ended && !must_end(watch)) {
    const double looked_at = world_.now();
    take(watch, world_.look(look_s), looked_at);
    consider_growth(watch, plan);
    consider_leaving(watch, plan);
  }
  asked_.reset();
  world_.end_all();
  take(watch, world_.look(0), world_.now());  // what was written until the end
  last_ended_ = watch.ended = world_.now();

  const Facts facts = facts_of(watch, plan);
  const auto states_before = node_states(history_, world_.date());
  const AttemptEnded ended = account(watch, facts);
  world_.append(to_json(ended));
  history_.add(ended);
  world_.announce(
      "attempt_ended",
      fmt::format("attempt {} ended: {} (exit code {}), step {}, newest durable step {}{}",
                  ended.attempt, name(ended.cause), ended.code, ended.last_step, ended.durable,
                  ended.error.empty() ? "" : ": " + ended.error),
      to_json(ended));
  for (const Blame& blame : ended.blame)
    if (blame.points > 1) fit_.erase(blame.host);  // when it returns, it is checked again
  const bool names_a_host = std::any_of(ended.blame.begin(), ended.blame.end(),
                                        [](const Blame& blame) { return blame.points > 0; });
  if (ended.cause == Cause::node_lost && !names_a_host)  // any of them may be bad
    for (const Host& host : plan.hosts) fit_.erase(host.name);
  show_nodes(states_before);
  return facts;
}

/// Returns what was seen of the attempt, with the evidence of its end.
Facts Supervisor::facts_of(const Watch& watch, const AttemptPlan& plan) {
  Facts facts = watch.facts;
  facts.evidence = world_.evidence();
  // The code of a launcher that was ended because it did not end says nothing.
  if (facts.stuck && facts.stuck->all_have_finished) {
    facts.code = code::done;
    facts.launcher_killed = false;
  }
  if (watch.asked) facts.stop = stop_;
  if (watch.launcher_ended && watch.facts.code != code::stopped) {  // not as it was asked to
    facts.grows = false;
    facts.leaves.reset();
  }
  if (force_ != 0) facts.stop = force_ == SIGKILL ? SIGTERM : force_;
  facts.watched = settings_.watched;
  const bool ended_well =
      facts.code == code::done || (facts.evidence.end_missed && facts.durable >= facts.last_step);
  facts.finished = ended_well && world_.training_is_finished();
  facts.unreachable = await_unreachable(facts.evidence);
  facts.wrong_hosts = hosts_of(facts.evidence.wrong_ranks, history_);
  if (plan.hosts.empty()) {  // there is no use in blaming the only machine
    facts.evidence.rank_host.clear();
    if (facts.stuck) facts.stuck->hosts.clear();
  }
  return facts;
}

void Supervisor::take(Watch& watch, const Sight& sight, double looked_at) {
  const double now = world_.now();
  // A machine that slept, or was too busy to run this process, says nothing about the job.
  if (settings_.hang_s > 0 && now - looked_at > std::max(look_s, settings_.hang_s / 2))
    watch.last_sign = now;
  if (!sight.steps.empty() && watch.first_step < 0) {
    double steps_s = 0;
    for (const Step& step : sight.steps) steps_s += step.seconds;
    watch.first_step = std::max(watch.began, now - steps_s);
    watch.first_number = sight.steps.front().number;
    say_origin(watch);
  }
  for (const Step& step : sight.steps) {
    watch.times.step(step.number, step.seconds);
    watch.pace.step(step.number, step.seconds, now);
    watch.facts.last_step = step.number;
    if (step.spike) note_loss_spike(step);
  }
  if (!sight.steps.empty() || sight.output || sight.durable != watch.seen_durable)
    watch.last_sign = now;
  watch.seen_durable = sight.durable;
  watch.output = watch.output || sight.output;
  // After going back, newer steps are there until the job has loaded the older one.
  const Index made =
      watch.went_back ? std::min(sight.durable, watch.facts.last_step) : sight.durable;
  watch.facts.durable = std::max(watch.facts.durable, made);
  watch.facts.last_step = std::max(watch.facts.last_step, watch.facts.durable);
  watch.times.durable(watch.facts.durable);
  watch.pace.durable(watch.facts.durable, now);
  note_signals(sight);
  watch.pages = sight.pages;
  if (watch.pages) watch.last_pages = now;
  if (sight.hang && !watch.asked) {
    world_.announce(sight.hang->over ? "hang_over" : "hang", sight.hang->sentence,
                    Json::Object{{"sentence", sight.hang->sentence}});
    if (sight.hang->end) watch.facts.stuck = sight.hang;
  }
  if (sight.code) {
    watch.launcher_ended = true;
    watch.facts.code = *sight.code;
    watch.facts.launcher_killed = sight.launcher_killed;
  }
}

void Supervisor::note_signals(const Sight& sight) {
  for (const int signal : sight.signals) {
    if (signal == SIGKILL) {
      force_ = signal;
      stop_ = stop_ == 0 ? signal : stop_;
    } else if (stop_ == 0) {
      stop_ = signal;
      stop_since_ = world_.now();
    } else if (signal != SIGUSR1 && world_.now() - stop_since_ >= same_request_s) {
      force_ = signal;
    }
  }
}

void Supervisor::ask(Watch& watch) {
  watch.last_asked = world_.now();
  watch.asked_step = watch.facts.last_step;
  world_.ask_to_stop();
}

/// How long the job may take to save and end.
double Supervisor::grace_s(const Watch& watch) const {
  if (settings_.grace_s > 0) return settings_.grace_s;
  double save_s = watch.pace.save_s();
  for (const Attempt& attempt : history_.attempts)
    if (attempt.ended) save_s = std::max(save_s, attempt.ended->save_s);
  return measured_grace_s(save_s, watch.pace.longest_step_s());
}

/// Acts on requests to stop and on hangs. True: the attempt is to be ended by force.
bool Supervisor::must_end(Watch& watch) {
  const double now = world_.now();
  if (const std::string loss = world_.loss_of_run(); !loss.empty()) {
    world_.end_all();
    throw Error(loss + ": the job is ended");
  }
  if (stop_ == 0 && settings_.time_limit_s > 0 && now - began_ >= settings_.time_limit_s) {
    world_.say("--time-limit is over");
    stop_ = SIGUSR1;
    stop_since_ = now;
  }
  if (force_ != 0) {
    world_.say(name_of(force_) + ": ends the job without saving");
    return true;
  }
  if (stop_ != 0 && !watch.asked) {
    watch.asked = true;
    watch.asked_at = now;
    const bool idle = settings_.watched && !watch.output && watch.first_step < 0;
    world_.announce("stopping",
                    name_of(stop_) + (idle ? ": ends the job, which has done nothing yet"
                                           : ": asks the job to save and end"),
                    Json::Object{{"signal", name_of(stop_)}});
    if (idle) return true;
    ask(watch);
  } else if (watch.asked && watch.facts.last_step >= watch.asked_step + steps_of_a_deaf_job &&
             now - watch.last_asked >= same_request_s) {
    ask(watch);  // mpirun forwards nothing to ranks that it has not started yet
  }
  if (watch.asked && now - watch.asked_at > grace_s(watch)) {
    world_.say(fmt::format("the job has not ended {:.0f} s after it was asked to (--grace)",
                           now - watch.asked_at));
    return true;
  }
  if (watch.facts.stuck) {
    watch.facts.hang = !watch.facts.stuck->all_have_finished;
    return true;
  }
  // Until pages were lost they have shown that the job moves, also where it does no step for long.
  if (!watch.asked && !watch.pages && settings_.hang_s > 0 &&
      now - std::max(watch.last_sign, watch.last_pages) > settings_.hang_s) {
    watch.facts.hang = true;
    world_.say(fmt::format("hang: no step, checkpoint or output for {:.1f} s (--hang-timeout)",
                           now - watch.last_sign));
    return true;
  }
  return false;
}

AttemptEnded Supervisor::account(const Watch& watch, const Facts& facts) const {
  AttemptEnded line{judge(facts)};
  line.attempt = history_.attempts.back().began.attempt;
  line.at = world_.date();
  line.code = facts.code;
  line.slow = facts.evidence.slow;
  if (line.cause == Cause::corruption) line.clean = facts.evidence.clean;
  line.last_step = facts.last_step;
  line.durable = facts.durable;
  line.first_step = watch.first_number;
  line.started = world_.started_from(line.attempt);
  line.wall_s = watch.ended - watch.began;
  line.save_s = watch.pace.save_s();
  line.saves = watch.pace.saves();
  line.save_interval = watch.pace.save_interval();
  line.gpus_per_rank = facts.evidence.gpus_per_rank;
  line.start_s = watch.first_step < 0 ? line.wall_s : watch.first_step - watch.began;
  const bool kept = line.cause == Cause::finished || facts.code == code::stopped;
  line.useful_s = watch.times.durable_s() + (kept ? watch.times.open_s() : 0);
  line.lost_s = kept ? 0 : watch.times.open_s();
  line.stall_s = std::max(0.0, line.wall_s - line.start_s - line.useful_s - line.lost_s);
  line.wall_s = line.start_s + line.useful_s + line.lost_s + line.stall_s;
  if (facts.hang) line.detect_s = std::min(line.stall_s, watch.ended - watch.last_sign);
  return line;
}

/// Once, for at most so long. False: it was asked to stop.
bool Supervisor::look_between_attempts(double seconds) {
  note_signals(world_.look(std::clamp(seconds, 0.0, look_s)));
  const bool over = settings_.time_limit_s > 0 && world_.now() - began_ >= settings_.time_limit_s;
  if (over && stop_ == 0) stop_ = SIGUSR1;  // as where it is over during an attempt
  return stop_ == 0;
}

/// Between attempts. False: it was asked to stop.
bool Supervisor::wait(double seconds) {
  const double until = world_.now() + seconds;
  do {
    if (!look_between_attempts(until - world_.now())) return false;
  } while (world_.now() < until);
  return true;
}

int Supervisor::end(int exit_code, const std::string& why) {
  const SupervisionEnded line{world_.date(), exit_code, why};
  world_.append(to_json(line));
  history_.add(line);
  const bool failed = exit_code != code::done && exit_code != code::stopped;
  world_.announce(exit_code == code::done ? "done" : "ended",
                  fmt::format("{} (exit code {}){}", why, exit_code,
                              failed && !history_.attempts.empty()
                                  ? "; the last output is in " +
                                        world_.log_of(history_.attempts.back().began.attempt)
                                  : ""),
                  to_json(line));
  return exit_code;
}

}  // namespace trireme::supervisor
