#include "launch/supervisor/commands/chaos_experiment.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <thread>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/judge.h"
#include "launch/supervisor/machine/clock.h"
#include "launch/supervisor/machine/metrics_tail.h"
#include "launch/supervisor/machine/rank_watch.h"
#include "runtime/core/process/child.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

constexpr Index goodput_window_s = 600, most_bytes = Index{1} << 30;
constexpr double poll_s = 0.01;

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += (all.empty() ? "" : "; ") + line;
  return all;
}

}  // namespace

Experiment::Experiment(const ChaosOptions& options, const EndSignals& signals)
    : options_(options),
      signals_(signals),
      paths_(options.run),
      metrics_(read_history(paths_).metrics_in(paths_.run)),
      deck_(options.kinds, options.seed) {}

bool Experiment::comes_true(double within_s, double pause_s,
                            const std::function<bool()>& condition) {
  for (const auto begin = Clock::now(); seconds_since(begin) < within_s; sleep(pause_s)) {
    require(!signals_.came(), "stopped by a signal");
    read_ledger();
    if (condition()) return true;
  }
  read_ledger();
  return condition();
}

/// It only grows: it is read again when it has, and never while parts of history_ are in use.
void Experiment::read_ledger() {
  const Index bytes = size_of(paths_.ledger);
  if (bytes != ledger_bytes_) history_ = read_history(paths_);
  ledger_bytes_ = bytes;
}

/// Whether an attempt runs that has made a durable step, so that its end is no crash loop.
bool Experiment::is_ready() const {
  if (history_.attempts.empty() || history_.attempts.back().ended || !read_offer(paths_))
    return false;
  const std::vector<Index> durable = durable_steps(paths_.run, 1);
  return !durable.empty() && durable.front() > history_.attempts.back().began.resumed;
}

bool Experiment::has_ended() const {
  return history_.end.has_value() && history_.end->code != code::stopped;
}

void Experiment::check_goodput() const {
  const double goodput = recent_goodput(history_, date_now(), goodput_window_s);
  require(100 * goodput >= options_.least_goodput,
          fmt::format("stopped: {:.0f} % of the last {} s were useful, less than --min-goodput "
                      "{:.0f}",
                      100 * goodput, goodput_window_s, options_.least_goodput));
}

void Experiment::compare() { seen_.compare(read_whole(metrics_, most_bytes), metrics_); }

Experiment::Struck Experiment::strike(const FaultRequest& request) {
  read_ledger();
  const std::size_t before = history_.faults.size();
  Struck struck{{},
                find_fault_kind(request.kind),
                Clock::now(),
                last_step_in(metrics_),
                std::make_shared<LogTail>(paths_.attempt(history_.attempts.back().began.attempt) +
                                          "/output.log")};
  ask_for(request, paths_);
  constexpr double taken_within_s = 30;
  try {
    require(comes_true(taken_within_s, 0.001, [&] { return !is_pending(paths_); }), paths_.run,
            ": its supervisor does not take the request for '", request.kind, "'");
  } catch (const Error&) {
    withdraw_request(paths_);
    throw;
  }
  read_ledger();
  require(history_.faults.size() > before, "the supervisor has refused '", request.kind,
          "': it says why");
  struck.fault = history_.faults.back();
  struck.at = Clock::now();
  return struck;
}

/// --node-cmd or --link-cmd. `state`: "begin", or "end" once the run has recovered, or has not.
void Experiment::call_user(const Struck& struck, const std::string& state) const {
  const bool of_link = struck.fault.kind == "link";
  const std::string& command = of_link ? options_.link_command : options_.node_command;
  const std::string host = struck.fault.victim.substr(std::strlen("host "));
  Child child({"/bin/sh", "-c", command},
              {.environment = environment_with(
                   {"TRIREME_HOST=" + host, "TRIREME_FAULT=" + struck.fault.kind,
                    "TRIREME_FAULT_STATE=" + state, "TRIREME_RUN_DIRECTORY=" + paths_.run}),
               .outlives = true});
  require(child.wait().succeeded(), of_link ? "--link-cmd" : "--node-cmd", ": '", command,
          "' has failed for ", host, " (", state, ")");
}

/// What the attempt that the fault hit came to, once the run has made a step beyond it.
std::optional<Trial> Experiment::outcome_of_attempt(const Struck& struck,
                                                    const AttemptEnded& ended) const {
  const AttemptBegan& last = history_.attempts.back().began;
  if (last.attempt <= struck.fault.attempt || last_step_in(metrics_) <= ended.last_step)
    return std::nullopt;
  Index resumed = last.resumed;
  std::vector<std::string> hosts;
  for (const Attempt& attempt : history_.attempts) {
    if (attempt.began.attempt == struck.fault.attempt) hosts = attempt.began.nodes;
    if (attempt.began.attempt == struck.fault.attempt + 1) resumed = attempt.began.resumed;
  }
  // A snapshot in memory may have been newer; of an attempt that runs the ledger does not say it.
  resumed =
      std::max(resumed, loaded_step(paths_.attempt(struck.fault.attempt + 1) + "/output.log"));
  Trial trial = judge_trial(
      struck.fault, ended, resumed, seconds_since(struck.at),
      hosts_narrowed_down(suspected_hosts(paths_.attempt(struck.fault.attempt)), hosts));
  if (struck.fault.kind == "flip") {
    std::vector<WrongRank> wrong;
    for (Index attempt = struck.fault.attempt; attempt <= last.attempt; ++attempt)
      for (const WrongRank& each : wrong_ranks(paths_.run, attempt)) wrong.push_back(each);
    trial.culprit = culprit_in(wrong, struck.fault);
  }
  return trial;
}

/// What shows that the run has noticed a fault with which it continues.
std::optional<Trial> Experiment::outcome_without_end(const Struck& struck) {
  const std::string& kind = struck.fault.kind;
  Trial trial;
  trial.fault = struck.fault;
  trial.cause_is_right = true;
  if (kind == "slow") {
    const std::vector<std::string> slow = describe_slow(pages_of_attempt(paths_, history_));
    if (slow.empty()) return std::nullopt;
    trial.cause = "slow";
    trial.culprit = culprit_in(joined(slow), struck.fault.victim);
  } else if (kind == "nan") {
    const Index skipped = skipped_step(metrics_, struck.step);
    if (skipped < 0) return std::nullopt;
    const std::vector<Index> durable = durable_steps(paths_.run, 2);
    // No later fault may go back to before this step, which would then not be skipped.
    if (durable.size() < 2 || durable.back() <= skipped) return std::nullopt;
    trial.cause = "skipped";
    seen_.forget_from(skipped);
  } else if (kind == "full-disk") {
    if (failed_save(struck.log->read()).empty()) return std::nullopt;
    const std::vector<Index> durable = durable_steps(paths_.run, 1);
    if (durable.empty() || durable.front() <= struck.step) return std::nullopt;
    trial.cause = "save_failed";
  } else {
    return std::nullopt;
  }
  trial.seconds = seconds_since(struck.at);
  return trial;
}

/// Nothing: it is not known yet.
std::optional<Trial> Experiment::outcome(const Struck& struck) {
  for (const Attempt& attempt : history_.attempts)
    if (attempt.began.attempt == struck.fault.attempt && attempt.ended)
      return outcome_of_attempt(struck, *attempt.ended);
  return outcome_without_end(struck);
}

void Experiment::take(Trial trial) {
  trials_.push_back(std::move(trial));
  const Trial& taken = trials_.back();
  std::cerr << fmt::format("fault {}: {}: {}: {}{}, {:.2f} s, {} steps done again\n",
                           trials_.size(), taken.fault.kind, taken.fault.victim, taken.cause,
                           taken.culprit == Culprit::wrong ? " (wrong culprit named)" : "",
                           taken.seconds, taken.lost_steps);
}

void Experiment::await_recovery(const Struck& struck) {
  std::optional<Trial> trial;
  const bool recovers = comes_true(options_.limit_s, poll_s, [&] {
    trial = outcome(struck);
    return trial.has_value();
  });
  require(recovers, fmt::format("{}: {}, attempt {}: {} within {:.0f} s", struck.fault.kind,
                                struck.fault.victim, struck.fault.attempt,
                                struck.kind->causes.empty() ? "not noticed" : "no new step",
                                options_.limit_s));
  take(std::move(*trial));
}

void Experiment::damage_a_copy(const FaultRequest& request) {
  const auto begin = Clock::now();
  read_ledger();
  Trial trial;
  trial.fault = {history_.attempts.back().began.attempt, date_now(), request.kind, ""};
  const CorruptCopy copy = corrupt_a_copy(paths_.run, options_.save_chaos, request.draw);
  trial.fault.victim = copy.where;
  trial.cause_is_right = !copy.problem.empty();
  trial.cause = trial.cause_is_right ? "damage_found" : "not_found";
  trial.seconds = seconds_since(begin);
  take(std::move(trial));
}

/// Whether what an earlier fault left would not be taken for an effect of this one.
bool Experiment::may_be_done(const std::string& kind) const {
  if (kind == "slow")  // ranks that were slow are reported for some steps
    return describe_slow(pages_of_attempt(paths_, history_)).empty();
  if (kind != "nan") return true;
  // Gradients that are not finite again before a newer durable step would end the run.
  const std::vector<Index> durable = durable_steps(paths_.run, 1);
  return std::none_of(history_.attempts.begin(), history_.attempts.end(), [&](const Attempt& at) {
    return at.ended && at.ended->cause == Cause::numerics &&
           (durable.empty() || durable.front() <= at.ended->last_step);
  });
}

void Experiment::do_next() {
  const auto offer = read_offer(paths_);
  require(offer.has_value(), paths_.run, ": its supervisor takes no faults any more");
  const FaultRequest request = deck_.next(offer->token);
  const FaultKind& kind = *find_fault_kind(request.kind);
  if (kind.victim == Victim::copy) return damage_a_copy(request);
  require(comes_true(options_.limit_s, poll_s, [&] { return may_be_done(request.kind); }),
          paths_.run,
          fmt::format(": '{}' cannot be done within {:.0f} s", request.kind, options_.limit_s));
  const Struck struck = strike(request);
  if (kind.victim == Victim::host)
    disturb_host(struck);
  else
    await_recovery(struck);
}

/// Whatever becomes of the run, also after a signal, the command is called to bring the host back.
void Experiment::disturb_host(const Struck& struck) {
  std::vector<std::string> failures;
  const auto collect = [&](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      failures.emplace_back(error.what());
    }
  };
  collect([&] {
    call_user(struck, "begin");
    await_recovery(struck);
  });
  collect([&] { call_user(struck, "end"); });
  require(failures.empty(), joined(failures));
}

bool Experiment::run() {
  if (!options_.reference.empty())
    seen_.compare(read_whole(options_.reference, most_bytes), options_.reference);
  const auto begin = Clock::now();
  auto last = begin;
  while (static_cast<Index>(trials_.size()) < options_.max &&
         seconds_since(begin) < options_.for_s) {
    // The pause comes first: at its end the run may have ended, or an attempt have just begun.
    if (!trials_.empty()) {
      const double pause_s = options_.every_s - seconds_since(last);
      if (pause_s > 0) std::cerr << fmt::format("the next fault comes in {:.0f} s\n", pause_s);
      comes_true(pause_s, 0.1, [&] { return has_ended(); });
    }
    require(comes_true(options_.limit_s, 0.02, [&] { return is_ready() || has_ended(); }),
            paths_.run,
            fmt::format(": no attempt makes a durable step within {:.0f} s", options_.limit_s));
    if (has_ended()) break;
    check_goodput();
    compare();
    last = Clock::now();
    do_next();
    compare();
  }
  return std::all_of(trials_.begin(), trials_.end(), [](const Trial& trial) {
    return trial.cause_is_right && trial.culprit != Culprit::wrong;
  });
}

}  // namespace trireme::supervisor
