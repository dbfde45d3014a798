// trireme chaos: asks the supervisor of a run for one fault after another, and reports what came of
// each.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <thread>

#include <fmt/format.h>

#include "launch/supervisor/commands/chaos.h"
#include "launch/supervisor/commands/commands.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/machine/metrics_tail.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Index goodput_window_s = 600;

struct Given {
  std::string run, reference;
  std::vector<std::string> kinds = {"kill", "segv", "mpirun"};
  double every_s = 600, for_s = 7200, limit_s = 600;
  Index seed = 1, max = 20;
  double least_goodput = 50;
  bool yes = false, json = false;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// Whether a condition came to hold within a time.
template <class F>
bool comes_true(double within_s, double poll_s, F&& condition) {
  for (const auto begin = Clock::now(); seconds_since(begin) < within_s; sleep(poll_s))
    if (condition()) return true;
  return condition();
}

class Experiment {
 public:
  explicit Experiment(const Given& given)
      : given_(given), paths_(given.run), deck_(given.kinds, given.seed) {}

  /// Returns whether every fault was recovered from, with the right cause and culprit.
  bool run();
  const std::vector<Trial>& trials() const { return trials_; }
  Index steps() const { return seen_.steps(); }

 private:
  bool is_ready() const;
  bool has_ended() const;
  void compare();
  Fault strike();
  void await_recovery(const Fault& fault, Clock::time_point struck);

  const Given given_;
  const Paths paths_;
  const std::string metrics_ = read_history(paths_).metrics_in(paths_.run);
  FaultDeck deck_;
  SeenSteps seen_;
  std::vector<Trial> trials_;
};

/// Whether an attempt runs that has made a durable step, so that its end is no crash loop.
bool Experiment::is_ready() const {
  const History history = read_history(paths_);
  if (history.attempts.empty() || history.attempts.back().ended || !read_offer(paths_))
    return false;
  const std::vector<Index> durable = durable_steps(paths_.run, 1);
  return !durable.empty() && durable.front() > history.attempts.back().began.resumed;
}

bool Experiment::has_ended() const {
  const History history = read_history(paths_);
  return history.end.has_value() && history.end->code != 75;
}

void Experiment::compare() {
  constexpr Index most_bytes = Index{1} << 30;
  seen_.compare(read_whole(metrics_, most_bytes), metrics_);
}

Fault Experiment::strike() {
  const std::size_t before = read_history(paths_).faults.size();
  const auto offer = read_offer(paths_);
  require(offer.has_value(), paths_.run, ": its supervisor takes no faults any more");
  const FaultRequest request = deck_.next(offer->token);
  ask_for(request, paths_);
  constexpr double taken_within_s = 30;
  if (!comes_true(taken_within_s, 0.001, [&] { return !is_pending(paths_); })) {
    withdraw_request(paths_);
    throw Error(
        str(paths_.run, ": its supervisor does not take the request for '", request.kind, "'"));
  }
  const History history = read_history(paths_);
  require(history.faults.size() > before, "the supervisor has refused '", request.kind,
          "': it says why");
  return history.faults.back();
}

void Experiment::await_recovery(const Fault& fault, Clock::time_point struck) {
  History history;
  const AttemptEnded* ended = nullptr;
  const bool recovers = comes_true(given_.limit_s, 0.005, [&] {
    history = read_history(paths_);
    ended = nullptr;
    for (const Attempt& attempt : history.attempts)
      if (attempt.began.attempt == fault.attempt && attempt.ended) ended = &*attempt.ended;
    return ended != nullptr && history.attempts.back().began.attempt > fault.attempt &&
           last_step_in(metrics_) > ended->last_step;
  });
  const double seconds = seconds_since(struck);
  require(recovers, fmt::format("{}: {}, attempt {}: no new step within {:.0f} s", fault.kind,
                                fault.victim, fault.attempt, given_.limit_s));
  trials_.push_back(judge_trial(fault, *ended, history.attempts.back().began.resumed, seconds));
  const Trial& trial = trials_.back();
  std::cerr << fmt::format("fault {}: {}: {}: {}{}, {:.2f} s, {} steps done again\n",
                           trials_.size(), fault.kind, fault.victim, trial.cause,
                           trial.culprit == Culprit::wrong ? " (wrong rank named)" : "", seconds,
                           trial.lost_steps);
}

bool Experiment::run() {
  if (!given_.reference.empty()) {
    constexpr Index most_bytes = Index{1} << 30;
    seen_.compare(read_whole(given_.reference, most_bytes), given_.reference);
  }
  const auto begin = Clock::now();
  auto last = begin;
  while (static_cast<Index>(trials_.size()) < given_.max && seconds_since(begin) < given_.for_s) {
    // The pause comes first: at its end the run may have ended, or an attempt have just begun.
    if (!trials_.empty())
      comes_true(given_.every_s - seconds_since(last), 0.1, [&] { return has_ended(); });
    require(comes_true(given_.limit_s, 0.02, [&] { return is_ready() || has_ended(); }), paths_.run,
            fmt::format(": no attempt makes a durable step within {:.0f} s", given_.limit_s));
    if (has_ended()) break;
    const double goodput =
        recent_goodput(read_history(paths_), Index{std::time(nullptr)}, goodput_window_s);
    require(100 * goodput >= given_.least_goodput,
            fmt::format("stopped: {:.0f} % of the last {} s were useful, less than --min-goodput "
                        "{:.0f}",
                        100 * goodput, goodput_window_s, given_.least_goodput));
    compare();
    last = Clock::now();
    const Fault fault = strike();
    await_recovery(fault, Clock::now());
    compare();
  }
  return std::all_of(trials_.begin(), trials_.end(), [](const Trial& trial) {
    return trial.cause_is_right && trial.culprit != Culprit::wrong;
  });
}

void check(const Given& given, Problems& problems) {
  const Paths paths(given.run);
  if (!given.yes)
    problems.add("--yes is missing: this command ends processes of the run ", paths.run);
  for (const std::string& kind : given.kinds)
    if (find_fault_kind(kind) == nullptr) {
      std::string known;
      for (const FaultKind& each : fault_kinds()) known += (known.empty() ? "" : ", ") + each.name;
      problems.add("--kinds ", kind, ": one of ", known);
    }
  const auto offer = read_offer(paths);
  if (!supervisor_of(paths)) {
    problems.add(paths.run, ": no supervisor runs");
  } else if (!offer) {
    problems.add(paths.run, ": its supervisor was started without --allow-chaos");
  } else if (offer->run != paths.run) {
    problems.add(paths.run, " is a copy of ", offer->run,
                 ", whose supervisor takes no requests here");
  } else if (offer->hang_s <= 0 &&
             std::find(given.kinds.begin(), given.kinds.end(), "stop") != given.kinds.end()) {
    problems.add(
        "--kinds stop: the run has no --hang-timeout, which says how soon a stopped rank is "
        "noticed; start it with one, such as --hang-timeout 10");
  }
}

void declare_duration(CommandLine& command, const std::string& name, double& value,
                      const std::string& help) {
  command.add(
      {name, "TIME", help, false,
       [&value](const std::vector<std::string>& given) { value = parse_duration(given.front()); },
       [&value] { return fmt::format("{:g}", value); }, true});
}

int chaos(int argc, char** argv) {
  Given given;
  CommandLine command(
      "trireme chaos",
      "Disturbs a run whose `trireme run` was started with --allow-chaos, and reports for each "
      "fault whether cause and culprit were right, the time to the first new step, and the lost "
      "steps. Ends with 1 at the first step whose numbers differ from those it had before, when "
      "the run does not recover, and when a cause or a culprit was wrong.");
  command.positional("RUN", given.run, "directory of a run (--save)");
  command.list("--kinds", given.kinds, "KIND",
               "kill, segv and stop a rank; mpirun, daemon: end mpirun, or a daemon of another "
               "host; term: preempt the run, which something has to start again");
  declare_duration(command, "--every", given.every_s, "from one fault to the next, at least");
  declare_duration(command, "--for", given.for_s, "then it ends");
  command.whole("--max", given.max, at_least(1), "faults");
  command.whole("--seed", given.seed, at_least(0), "of the order of kinds and the choice of ranks");
  command.text("--reference", given.reference, "FILE",
               "metrics.jsonl of the same run without faults: its steps must have the same bits");
  command.real("--min-goodput", given.least_goodput, {0, 100},
               "percent of the last 10 min that must have been useful, or it ends");
  declare_duration(command, "--limit", given.limit_s, "for the recovery from one fault");
  command.flag("--json", given.json, "print one line of JSON instead of the table");
  command.flag("--yes", given.yes, "yes, disturb this run");
  return parse_and_run(
      command, argc, argv, [&](Problems& problems) { check(given, problems); },
      [&] {
        Experiment experiment(given);
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
        require(failure.empty(), failure);
        return right ? ExitCode::success : ExitCode::failure;
      });
}

}  // namespace

std::vector<Subcommand> chaos_commands() {
  return {{{"chaos"}, "RUN --yes [options]", "disturb a run, and report how it recovers", chaos}};
}

}  // namespace trireme::supervisor
