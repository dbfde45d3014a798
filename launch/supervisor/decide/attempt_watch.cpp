#include "launch/supervisor/decide/attempt_watch.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "trireme/core/error.h"

namespace trireme::supervisor {
namespace {

constexpr std::size_t recent_steps = 20, open_steps = 4096;
constexpr double unmeasured_grace_s = 600, least_grace_s = 20;
constexpr double shortest_save_s = 0.001;  // it may be over before the supervisor looks

constexpr Index steps_of_a_deaf_job = 3;  // one that got the signal stops after one or two

}  // namespace

void Pace::step(Index number, double seconds, double now) {
  ++steps_;
  sum_s_ += seconds;
  recent_.push_back(seconds);
  if (recent_.size() > recent_steps) recent_.pop_front();
  open_.push_back({number, now});
  if (open_.size() > open_steps) open_.pop_front();
}

void Pace::durable(Index number, double now) {
  while (!open_.empty() && open_.front().number <= number) {
    if (open_.front().number == number) {
      save_s_ = std::max({save_s_, shortest_save_s, now - open_.front().at});
      if (saves_++ == 0) first_saved_ = number;
      last_saved_ = number;
    }
    open_.pop_front();
  }
}

double Pace::save_interval() const {
  return saves_ < 2
             ? 0
             : static_cast<double>(last_saved_ - first_saved_) / static_cast<double>(saves_ - 1);
}

double Pace::longest_step_s() const {
  return recent_.empty() ? 0 : *std::max_element(recent_.begin(), recent_.end());
}

double measured_grace_s(double save_s, double step_s) {
  if (save_s <= 0 || step_s <= 0) return unmeasured_grace_s;
  return std::max(least_grace_s, 3 * save_s + 2 * step_s);
}

AttemptWatch::AttemptWatch(Session& session, const AttemptPlan& plan, Index resumed)
    : Part(session), plan_(plan), began_(launcher_.now()), last_sign_(began_) {
  facts_.code = 128 + SIGKILL;  // unless mpirun ends by itself
  facts_.watched = settings_.watched;
  facts_.resumed = facts_.last_step = facts_.durable = resumed;
}

double AttemptWatch::seconds_to(Index step) const {
  return static_cast<double>(std::max<Index>(0, step - facts_.last_step)) * pace_.mean_step_s();
}

void AttemptWatch::add_steps(const std::vector<Step>& steps, double now) {
  if (first_step_ < 0) {
    double steps_s = 0;
    for (const Step& step : steps) steps_s += step.seconds;
    first_step_ = std::max(began_, now - steps_s);
    first_number_ = steps.front().number;
    log_origin();
  }
  for (const Step& step : steps) {
    times_.step(step.number, step.seconds);
    pace_.step(step.number, step.seconds, now);
    facts_.last_step = step.number;
    if (step.spike) record_loss_spike(step);
  }
}

void AttemptWatch::update(const Observation& seen, double looked_at) {
  const double now = launcher_.now();
  // A machine that slept, or was too busy to run this process, says nothing about the job.
  if (settings_.hang_s > 0 && now - looked_at > std::max(most_wait_s, settings_.hang_s / 2))
    last_sign_ = now;
  if (!seen.steps.empty()) add_steps(seen.steps, now);
  if (!seen.steps.empty() || seen.output || seen.durable != seen_durable_) last_sign_ = now;
  seen_durable_ = seen.durable;
  printed_ = printed_ || seen.output;
  // After going back, newer steps are there until the job has loaded the older one.
  const Index made = plan_.step >= 0 ? std::min(seen.durable, facts_.last_step) : seen.durable;
  facts_.durable = std::max(facts_.durable, made);
  facts_.last_step = std::max(facts_.last_step, facts_.durable);
  times_.durable(facts_.durable);
  pace_.durable(facts_.durable, now);
  session_.add_signals(seen.signals);
  pages_ = seen.pages;
  if (pages_) last_pages_ = now;
  if (seen.hang && !asked_) {
    launcher_.notify(seen.hang->over ? "hang_over" : "hang", seen.hang->sentence,
                     Json::Object{{"sentence", seen.hang->sentence}});
    if (seen.hang->end) facts_.stuck = seen.hang;
  }
  if (seen.code) {
    launcher_ended_ = true;
    facts_.code = *seen.code;
    facts_.launcher_killed = seen.launcher_killed;
  }
}

void AttemptWatch::record_loss_spike(const Step& step) {
  const LossSpike line{plan_.attempt, launcher_.date(), step.number, step.loss};
  session_.record(line);
  launcher_.notify("loss_spike",
                   fmt::format("loss spike: to step {}, with loss {:g}", line.step, line.loss),
                   to_json(line));
}

/// Says from which snapshot the attempt has started, where it was from one.
void AttemptWatch::log_origin() const {
  const Started started = files_.started_from(plan_.attempt);
  const bool in_memory = started.tier == "memory";
  if (!in_memory && started.tier != "local") return;
  launcher_.log(fmt::format("attempt {} has started from step {} ({}; durable step {})",
                            plan_.attempt, started.step, in_memory ? "in memory" : "on local disks",
                            facts_.resumed));
}

void AttemptWatch::request_stop() {
  last_asked_ = launcher_.now();
  asked_step_ = facts_.last_step;
  launcher_.request_stop();
}

/// Returns how long the job may take to save and end.
double AttemptWatch::grace_s() const {
  if (settings_.grace_s > 0) return settings_.grace_s;
  double save_s = pace_.save_s();
  for (const Attempt& attempt : history_.attempts)
    if (attempt.ended) save_s = std::max(save_s, attempt.ended->save_s);
  return measured_grace_s(save_s, pace_.longest_step_s());
}

void AttemptWatch::move(const Move& move) {
  launcher_.notify(move.event, move.line, move.details);
  facts_.leaves = move.leaves;
  facts_.grows = !move.leaves;
  asked_ = true;
  asked_at_ = launcher_.now();
  request_stop();
}

bool AttemptWatch::must_end() {
  if (const std::string loss = launcher_.loss_of_run(); !loss.empty()) {
    launcher_.end_all();
    throw Error(loss + ": the job is ended");
  }
  if (session_.stop == 0 && session_.is_time_over()) {
    launcher_.log("--time-limit is over");
    session_.stop_with(SIGUSR1);
  }
  if (session_.force != 0) {
    launcher_.log(name_of_request(session_.force) + ": ends the job without saving");
    return true;
  }
  return does_not_stop() || does_not_move();
}

/// Asks the job to stop where that was asked for. Returns whether it is to be ended by force: it
/// has nothing to save, or does not end.
bool AttemptWatch::does_not_stop() {
  const double now = launcher_.now();
  if (session_.stop != 0 && !asked_) {
    asked_ = true;
    asked_at_ = now;
    const std::string request = name_of_request(session_.stop);
    const bool idle = settings_.watched && !printed_ && first_step_ < 0;
    launcher_.notify("stopping",
                     request + (idle ? ": ends the job, which has done nothing yet"
                                     : ": asks the job to save and end"),
                     Json::Object{{"signal", request}});
    if (idle) return true;
    request_stop();
  } else if (asked_ && facts_.last_step >= asked_step_ + steps_of_a_deaf_job &&
             now - last_asked_ >= same_request_s) {
    request_stop();  // mpirun forwards nothing to ranks that it has not started yet
  }
  if (!asked_ || now - asked_at_ <= grace_s()) return false;
  launcher_.log(fmt::format("the job has not ended {:.0f} s after it was asked to (--grace)",
                            now - asked_at_));
  return true;
}

/// Returns whether it is to be ended since nothing moves.
bool AttemptWatch::does_not_move() {
  if (facts_.stuck) {
    facts_.hang = !facts_.stuck->all_have_finished;
    return true;
  }
  // Until pages were lost they have shown that the job moves, also where it does no step for long.
  const double now = launcher_.now();
  if (asked_ || pages_ || settings_.hang_s <= 0 ||
      now - std::max(last_sign_, last_pages_) <= settings_.hang_s)
    return false;
  facts_.hang = true;
  launcher_.log(fmt::format("hang: no step, checkpoint or output for {:.1f} s (--hang-timeout)",
                            now - last_sign_));
  return true;
}

Facts AttemptWatch::facts_at_end() {
  ended_ = launcher_.now();
  Facts facts = facts_;
  facts.evidence = launcher_.evidence();
  // The code of a launcher that was ended because it did not end says nothing.
  if (facts.stuck && facts.stuck->all_have_finished) {
    facts.code = code::done;
    facts.launcher_killed = false;
  }
  if (asked_) facts.stop = session_.stop;
  if (launcher_ended_ && facts_.code != code::stopped) {  // not as it was asked to
    facts.grows = false;
    facts.leaves.reset();
  }
  if (session_.force != 0) facts.stop = session_.force == SIGKILL ? SIGTERM : session_.force;
  const bool ended_well =
      facts.code == code::done || (facts.evidence.end_missed && facts.durable >= facts.last_step);
  facts.finished = ended_well && files_.training_is_finished();
  facts.wrong_hosts = hosts_of(facts.evidence.wrong_ranks, history_);
  if (plan_.hosts.empty()) {  // there is no use in blaming the only machine
    facts.evidence.rank_host.clear();
    if (facts.stuck) facts.stuck->hosts.clear();
  }
  return facts;
}

AttemptEnded AttemptWatch::account(const Facts& facts) const {
  AttemptEnded line{judge(facts)};
  line.attempt = plan_.attempt;
  line.at = launcher_.date();
  line.code = facts.code;
  line.slow = facts.evidence.slow;
  if (line.cause == Cause::corruption) line.clean = facts.evidence.clean;
  line.last_step = facts.last_step;
  line.durable = facts.durable;
  line.first_step = first_number_;
  line.started = files_.started_from(line.attempt);
  line.wall_s = ended_ - began_;
  line.save_s = pace_.save_s();
  line.saves = pace_.saves();
  line.save_interval = pace_.save_interval();
  line.gpus_per_rank = facts.evidence.gpus_per_rank;
  line.start_s = first_step_ < 0 ? line.wall_s : first_step_ - began_;
  const bool kept = line.cause == Cause::finished || facts.code == code::stopped;
  line.useful_s = times_.durable_s() + (kept ? times_.open_s() : 0);
  line.lost_s = kept ? 0 : times_.open_s();
  line.stall_s = std::max(0.0, line.wall_s - line.start_s - line.useful_s - line.lost_s);
  line.wall_s = line.start_s + line.useful_s + line.lost_s + line.stall_s;
  if (facts.hang) line.detect_s = std::min(line.stall_s, ended_ - last_sign_);
  return line;
}

}  // namespace trireme::supervisor
