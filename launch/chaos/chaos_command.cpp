// trireme chaos: asks the supervisor of a run for one fault after another, and reports what came of
// each.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/chaos/signs.h"
#include "launch/chaos/trials.h"
#include "launch/supervisor/commands/commands.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/decide/judge.h"
#include "launch/supervisor/machine/progress.h"
#include "launch/supervisor/machine/rank_watch.h"
#include "launch/supervisor/records/ledger.h"
#include "runtime/core/process/child.h"
#include "runtime/core/process/this_process.h"
#include "runtime/core/seconds_since.h"
#include "runtime/options/check_options.h"
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

struct ChaosOptions {
  std::string run, reference;
  std::vector<std::string> kinds = {"kill", "segv", "mpirun"};
  double every_s = 600, for_s = 7200, limit_s = 600;
  Index seed = 1, max = 20;
  double least_goodput = 50;
  std::string node_command, link_command;  // run by the shell, with TRIREME_HOST
  std::string save_chaos;                  // where copies of checkpoints are damaged
};

/// One fault after another in a run, and what came of each.
class Experiment {
 public:
  /// After one of these signals it stops, once what a command of the user took away is back.
  Experiment(const ChaosOptions& options, const EndSignals& signals);

  /// Returns whether every fault was recovered from, with the right cause and culprit. Throws:
  /// Error at the first wrong bit, or where the run does not recover.
  bool run();
  const std::vector<Trial>& trials() const { return trials_; }
  Index steps() const { return seen_.steps(); }

 private:
  using Clock = std::chrono::steady_clock;
  /// A fault that was done, and what the run had reached then.
  struct Struck {
    Fault fault;
    const FaultKind* kind;
    Clock::time_point at;
    Index step;
    std::shared_ptr<LogTail> log;
  };

  /// Whether a condition came to hold within a time. The ledger is read before each look. Throws:
  /// Error after a signal.
  bool comes_true(double within_s, double pause_s, const std::function<bool()>& condition);
  void read_ledger();
  bool is_ready() const;
  bool has_ended() const;
  void check_goodput() const;
  void compare();
  bool may_be_done(const std::string& kind) const;
  void do_next();
  Struck strike(const FaultRequest& request);
  void call_user(const Struck& struck, const std::string& state) const;
  void await_recovery(const Struck& struck);
  void disturb_host(const Struck& struck);
  std::optional<Trial> outcome(const Struck& struck);
  std::optional<Trial> outcome_of_attempt(const Struck& struck, const AttemptEnded& ended) const;
  std::optional<Trial> outcome_without_end(const Struck& struck);
  void damage_a_copy(const FaultRequest& request);
  void add(Trial trial);

  const ChaosOptions options_;
  const EndSignals& signals_;
  const Paths paths_;
  const std::string metrics_;
  FaultDeck deck_;
  SeenSteps seen_;
  std::vector<Trial> trials_;
  History history_;  // of read_ledger()
  Index ledger_bytes_ = -1;
};

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

void Experiment::add(Trial trial) {
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
  add(std::move(*trial));
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
  add(std::move(trial));
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

struct ChaosArguments {
  ChaosOptions options;
  bool yes = false, json = false;
};

bool asks_for(const ChaosOptions& options, const std::string& kind) {
  return std::find(options.kinds.begin(), options.kinds.end(), kind) != options.kinds.end();
}

/// Whether one path is the other, or lies in it.
bool lies_in(const std::string& path, const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path inner = fs::weakly_canonical(path), outer = fs::weakly_canonical(directory);
  const auto [end, rest] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

void check_kinds(const ChaosOptions& options, Problems& problems) {
  for (const std::string& kind : options.kinds)
    if (find_fault_kind(kind) == nullptr) {
      std::string known;
      for (const FaultKind& each : fault_kinds()) known += (known.empty() ? "" : ", ") + each.name;
      problems.add("--kinds ", kind, ": one of ", known);
    }
  const auto check_option = [&](const char* kind, const char* name, const std::string& value,
                                const char* what) {
    if (asks_for(options, kind) && value.empty())
      problems.add("--kinds ", kind, " needs ", name, ", ", what);
    if (!asks_for(options, kind) && !value.empty())
      problems.add(name, " has no meaning without --kinds ", kind);
  };
  check_option("node", "--node-cmd", options.node_command,
               "a command that takes the host TRIREME_HOST away");
  check_option("link", "--link-cmd", options.link_command,
               "a command that cuts the host TRIREME_HOST off");
  check_option("corrupt", "--save-chaos", options.save_chaos,
               "a new directory for a copy of a checkpoint, which is damaged there");
  if (!options.save_chaos.empty() &&
      (lies_in(options.save_chaos, options.run) || lies_in(options.run, options.save_chaos)))
    problems.add("--save-chaos ", options.save_chaos, " has to be apart from ", options.run,
                 ", whose checkpoints are never touched");
}

/// What the attempt that runs lacks for a kind.
void check_attempt(const ChaosOptions& options, const Paths& paths, double hang_s,
                   Problems& problems) {
  const History history = read_history(paths);
  if (history.attempts.empty() || history.attempts.back().ended) return;
  const AttemptBegan& began = history.attempts.back().began;
  const std::vector<observe::PageState> pages = pages_of_attempt(paths, history);
  if (!began.nodes.empty()) {
    if (hang_s <= 0 && pages.empty() && asks_for(options, "stop"))  // pages show it
      problems.add(
          "--kinds stop: no status pages of the run's hosts are seen, and it has no "
          "--hang-timeout, which says how soon a stopped rank is noticed; start it with one, such "
          "as --hang-timeout 10");
    const Index slots = std::max<Index>(1, began.ranks / std::ssize(began.nodes));
    const Index spares = began.spares / slots;
    const Index most = faults_with_spares({options.kinds, options.seed}, options.max, spares);
    if (most < options.max)
      problems.add("--max ", options.max, ": the first ", most + 1, " faults may take ", spares + 1,
                   " hosts out (node, link, flip, xid), but the run has ", spares, " spare hosts");
  } else if (asks_for(options, "node") || asks_for(options, "link")) {
    problems.add("--kinds node, link: the run has this machine only, no hosts");
  }
  const Replicas replicas = replicas_of(pages);
  if (asks_for(options, "flip") && replicas.data == 1)
    problems.add("--kinds flip: the run has one data replica, so nothing finds a flipped bit");
  constexpr Index compared = 3;
  if (asks_for(options, "slow") && replicas.of_stage > 0 && replicas.of_stage < compared)
    problems.add("--kinds slow: a stage of the run has ", replicas.of_stage,
                 " ranks, and a slow one is named among 3 or more");
  if (asks_for(options, "full-disk") && began.ranks == 1)
    problems.add("--kinds full-disk: the run has one rank, which writes the file of steps as well");
}

void check(const ChaosArguments& given, Problems& problems) {
  const Paths paths(given.options.run);
  if (!given.yes)
    problems.add("--yes is missing: this command ends processes of the run ", paths.run);
  check_kinds(given.options, problems);
  if (const std::string& copies = given.options.save_chaos; !copies.empty()) {
    options::check_directory("--save-chaos", copies, problems);
    std::error_code missing;
    if (problems.empty() && std::filesystem::exists(copies, missing) &&
        (std::filesystem::is_symlink(copies) || !std::filesystem::is_empty(copies)))
      problems.add("--save-chaos ", copies, ": is removed each time, so it has to be new or empty");
  }
  const bool known = problems.all().empty();
  const auto offer = read_offer(paths);
  if (!supervisor_of(paths)) {
    problems.add(paths.run, ": no supervisor runs");
  } else if (!offer) {
    problems.add(paths.run, ": its supervisor was started without --allow-chaos");
  } else if (offer->run != paths.run) {
    problems.add(paths.run, " is a copy of ", offer->run,
                 ", whose supervisor takes no requests here");
  } else {
    if (asks_for(given.options, "flip") && !offer->compares)
      problems.add("--kinds flip: the run has --check-replicas 0, so nothing finds a flipped bit");
    if (known) check_attempt(given.options, paths, offer->hang_s, problems);
  }
}

void declare(CommandLine& command, ChaosArguments& given) {
  ChaosOptions& options = given.options;
  command.positional("RUN", options.run, "directory of a run (--save)");
  command.list(
      "--kinds", options.kinds, "KIND",
      "kill, segv and stop a rank; hang, slow: a rank computes without end, or for longer for some "
      "steps; nan: a gradient; flip: a bit of a parameter of one replica; xid: a rank ends as if "
      "the driver of its GPU had reported Xid 79 (simulated, also without GPUs); full-disk: files "
      "of a rank cannot grow until a save has failed; corrupt: a bit in a copy of a checkpoint; "
      "mpirun, daemon: end mpirun, or a daemon of another host; node, link: by a command of yours; "
      "term: preempt the run, which something has to start again");
  declare_duration(command, "--every", options.every_s, "from one fault to the next, at least");
  declare_duration(command, "--for", options.for_s, "then it ends");
  command.whole("--max", options.max, at_least(1), "faults");
  command.whole("--seed", options.seed, at_least(0),
                "of the order of kinds and the choice of ranks");
  command.text("--reference", options.reference, "FILE",
               "metrics.jsonl of the same run without faults: its steps must have the same bits");
  command.text("--node-cmd", options.node_command, "CMD",
               "for node: run by the shell; takes the host TRIREME_HOST away where "
               "TRIREME_FAULT_STATE is begin, and may bring it back where that is end");
  command.text("--link-cmd", options.link_command, "CMD",
               "for link: the same, for the network of the host");
  command.text("--save-chaos", options.save_chaos, "DIR",
               "for corrupt: a new directory with space for a checkpoint, removed each time");
  command.real("--min-goodput", options.least_goodput, {0, 100},
               "percent of the last 10 min that must have been useful, or it ends");
  declare_duration(command, "--limit", options.limit_s, "for the recovery from one fault");
  command.flag("--json", given.json, "print one line of JSON instead of the table");
  command.flag("--yes", given.yes, "yes, disturb this run");
}

int chaos(int argc, char** argv) {
  ChaosArguments given;
  CommandLine command(
      "trireme chaos",
      "Disturbs a run whose `trireme run` was started with --allow-chaos, and reports for each "
      "fault whether cause and culprit were right, the time to the first new step (of slow, nan, "
      "full-disk and corrupt: until it was noticed), and the lost steps. Ends with 1 at the first "
      "step whose numbers differ from those it had before, when the run does not recover, and when "
      "a cause or a culprit was wrong.");
  declare(command, given);
  EndSignals signals;
  return parse_and_run(
      command, argc, argv, [&](Problems& problems) { check(given, problems); },
      [&] {
        Experiment experiment(given.options, signals);
        bool right = false;
        std::string failure;
        try {
          right = experiment.run();
        } catch (const Error& error) {
          failure = error.what();
        }
        std::cout << (given.json
                          ? trireme::to_text(to_json(experiment.trials(), experiment.steps())) +
                                "\n"
                          : to_text(experiment.trials(), experiment.steps(), failure.empty()));
        std::cout.flush();
        if (const int signal = signals.take()) {
          if (!failure.empty()) std::cerr << "trireme chaos: " << failure << '\n';
          end_by(signal);
        }
        require(failure.empty(), failure);
        return right ? ExitCode::success : ExitCode::failure;
      });
}

}  // namespace

std::vector<Subcommand> chaos_commands() {
  return {{{"chaos"}, "RUN --yes [options]", "disturb a run, and report how it recovers", chaos}};
}

}  // namespace trireme::supervisor
