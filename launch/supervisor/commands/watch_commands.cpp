// trireme stop, report, nodes: of a run that `trireme run` supervises, or has supervised.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include <fmt/format.h>

#include "launch/supervisor/commands/commands.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/machine/host_preflight.h"
#include "launch/supervisor/machine/progress.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/records/goodput.h"
#include "launch/supervisor/records/ledger.h"
#include "launch/supervisor/records/nodes.h"
#include "runtime/core/text/one_line.h"
#include "runtime/store/file.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/tiers/slots.h"
#include "runtime/store/tiers/time_line.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::supervisor {
namespace {

/// Where a run was never supervised, that is a mistake of the command line.
History history_in(const std::string& run, Problems& problems) {
  History history;
  open_input(problems, [&] { history = history_of(Paths(run)); });
  return history;
}

bool is_time(const std::string& word) {
  try {
    parse_duration(word);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// "--wait" without a time as "--wait=TIME" with one that is long enough.
std::vector<std::string> with_times(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (std::size_t i = 1; i < words.size(); ++i)
    if (words[i] == "--wait" && (i + 1 == words.size() || !is_time(words[i + 1])))
      words[i] = "--wait=10000d";
  return words;
}

/// Returns when no supervisor has the run, or fails when the time is over.
ExitCode wait_for_end(const Paths& paths, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (const auto holder = supervisor_of(paths)) {
    require(Clock::now() < until, paths.run, ": ", *holder, " still supervises it after ", seconds,
            " s (--wait)");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const History history = read_history(paths);
  std::cout << (history.end ? fmt::format("ended with {}: {}", history.end->code,
                                          one_line(history.end->why))
                            : "the supervisor is gone")
            << '\n';
  return ExitCode::success;
}

int stop(int argc, char** argv) {
  std::string run;
  bool at_once = false;
  double wait_s = 0;
  CommandLine command("trireme stop",
                      "Asks the job of a run to save and end; its supervisor ends with exit code "
                      "75. Works from every host that sees the directory.");
  command.positional("RUN", run, run_help);
  command.flag("--now", at_once, "end the job without saving");
  command.add(
      {"--wait", "[TIME]",
       "return when the supervisor has ended, or fail when it has not after TIME, such as "
       "90 or 30m; default: do not wait",
       false,
       [&](const std::vector<std::string>& given) { wait_s = parse_duration(given.front()); },
       [] { return std::string(); }, true});
  std::vector<std::string> words = with_times(argc, argv);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse_and_run(
      command, argc, pointers.data(),
      [&](Problems& problems) {
        open_input(problems, [&] {
          if (!supervisor_of(Paths(run))) history_of(Paths(run));
        });
      },
      [&] {
        const Paths paths(run);
        const auto holder = supervisor_of(paths);
        require(holder.has_value(), paths.run, ": no supervisor runs");
        replace_file(paths.stop, at_once ? "now\n" : "save\n");
        std::cout << "asked " << *holder << " to stop\n" << std::flush;
        return wait_s > 0 ? wait_for_end(paths, wait_s) : ExitCode::success;
      });
}

/// What a person wants to know at night: how the run is, what became of its attempts, and where to
/// look.
std::string first_screen(const Paths& paths, const History& history, const Goodput& found) {
  constexpr std::size_t most = 10;
  const std::vector<Index> durable = durable_steps(paths.run, 1);
  const bool supervised = supervisor_of(paths).has_value();
  std::string text = fmt::format(
      "{}: {}; step {}, newest durable step {}\n", history.run, state_of(history, supervised),
      last_step_in(history.metrics_in(paths.run)), durable.empty() ? 0 : durable.front());
  std::vector<AttemptLine> lines = found.lines;
  for (AttemptLine& line : lines)
    if (!line.cause && !supervised) line.reason = "its supervisor died";
  text += to_text(lines, most);
  Index last = 0;  // that has failed
  for (const AttemptLine& line : found.lines)
    if (line.cause && is_failure(*line.cause)) last = line.attempt;
  if (last > 0) text += fmt::format("files: {}\n", paths.attempt(last));
  return text;
}

int report(int argc, char** argv) {
  std::string run;
  bool json = false;
  Price price;
  CommandLine command("trireme report",
                      "Where the time of a run went, by cause, and what it cost.");
  command.positional("RUN", run, run_help);
  command.flag("--json", json, "print one line of JSON instead of text");
  command.add({"--price", "[GPU=]AMOUNT",
               "of an hour of one GPU, such as 2.5 or H100=2.5, or of a node: node=0.4", false,
               [&](const std::vector<std::string>& given) { price = parse_price(given.front()); },
               [] { return std::string(); }, true});
  History history;
  return parse_and_run(
      command, argc, argv, [&](Problems& problems) { history = history_in(run, problems); },
      [&] {
        const Paths paths(run);
        const Goodput found = goodput(history);
        std::cout << (json
                          ? trireme::to_text(to_json(found, price)) + "\n"
                          : printable(first_screen(paths, history, found) + to_text(found, price)));
        return ExitCode::success;
      });
}

std::string describe_no_blame(const History& history) {
  const bool hosts =
      std::any_of(history.attempts.begin(), history.attempts.end(),
                  [](const Attempt& attempt) { return !attempt.began.nodes.empty(); });
  return hosts ? "no host was blamed in the last 24 hours\n"
               : "no host was blamed: the run is on one machine, which has nothing to take its "
                 "place; `trireme report` lists what failed there\n";
}

int nodes(int argc, char** argv) {
  std::string run;
  bool json = false;
  CommandLine command(
      "trireme nodes",
      "Hosts that were blamed for failures in the last 24 hours, with their "
      "points; with 3 points a host is in quarantine. Also hosts that do not pass the "
      "preflight, and the figures of --preflight short.");
  command.positional("RUN", run, run_help);
  command.flag("--json", json, "print one line of JSON instead of text");
  History history;
  return parse_and_run(
      command, argc, argv, [&](Problems& problems) { history = history_in(run, problems); },
      [&] {
        const Paths paths(run);
        const auto states = node_states(history, date_now());
        const preflight::Report figures = read_preflight(paths);
        const std::vector<UnfitHost> unfit = read_unfit(paths);
        if (json) {
          Json all = to_json(states);
          add_unfit(all, unfit);
          add_figures(all, figures);
          std::cout << trireme::to_text(all) << '\n';
          return ExitCode::success;
        }
        std::string text = states.empty() ? describe_no_blame(history) : "";
        for (const NodeState& state : states) {
          text += fmt::format("{}: {} points{}\n", state.host, state.points,
                              state.quarantined() ? ", in quarantine" : "");
          for (const std::string& reason : state.reasons) text += "  " + reason + "\n";
        }
        for (const UnfitHost& each : unfit)
          text += fmt::format("{} does not pass the preflight: {}\n", each.host, each.why);
        std::cout << printable(text + text_of_figures(figures));
        return ExitCode::success;
      });
}

/// Whether there is something of a host to forget.
bool is_known(const std::string& host, const Paths& paths, const History& history) {
  const auto states = node_states(history, date_now());
  const std::vector<UnfitHost> unfit = read_unfit(paths);
  const preflight::Report figures = read_preflight(paths);
  const auto same = [&](const auto& each) { return each.host == host; };
  return std::any_of(states.begin(), states.end(), same) ||
         std::any_of(unfit.begin(), unfit.end(), same) ||
         std::any_of(figures.nodes.begin(), figures.nodes.end(), same);
}

int release(int argc, char** argv) {
  std::string run, host;
  CommandLine command(
      "trireme nodes release",
      "Forgets what a host was blamed for, and that it did not pass the preflight, so "
      "that attempts may use it again.");
  command.positional("RUN", run, run_help);
  command.positional("HOST", host, "its name, as `trireme nodes` prints it");
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        const History history = history_in(run, problems);
        if (problems.empty() && !is_known(host, Paths(run), history))
          problems.add(host, " was neither blamed in the last 24 hours nor checked by --preflight");
      },
      [&] {
        const Paths paths(run);
        if (supervisor_of(paths)) {
          replace_file(paths.folder + "/" + release_prefix + host, "");
          std::cout << "the supervisor takes it before its next attempt\n";
        } else {
          const auto lease = take_run(paths, [](const std::string& line) {
            std::cerr << "trireme: " << printable(line) << '\n';
          });
          LedgerFile(paths.ledger).append(to_json(Release{host, date_now(), 0}));
          std::cout << host << " is released\n";
        }
        return ExitCode::success;
      });
}

/// Where the run has had snapshots on disks.
void clean_disks(const Paths& paths, const std::string& key) {
  const auto line = store::read_time_line(paths.run);
  if (!line) return;
  for (const std::string& disk : line->disks()) {
    const std::string snapshots = store::local_snapshot_directory(disk, key);
    if (::access(snapshots.c_str(), F_OK) != 0) continue;
    store::remove_local_snapshots(disk, key);
    std::cout << "removed " << snapshots << '\n';
  }
}

int clean(int argc, char** argv) {
  std::string run;
  CommandLine command("trireme nodes clean",
                      "Removes the snapshots that a run has in memory of this host "
                      "(--save-memory-interval) and on its disks (--save-local). It then resumes "
                      "from its newest durable step.");
  command.positional("RUN", run, run_help);
  History history;
  return parse_and_run(
      command, argc, argv, [&](Problems& problems) { history = history_in(run, problems); },
      [&] {
        const Paths paths(run);
        const auto holder = supervisor_of(paths);
        require(!holder, paths.run, ": ", holder.value_or(""),
                " supervises this run, whose job uses its snapshots: stop it first");
        const std::string key = key_of(paths, history.run);
        const std::string snapshots = store::snapshot_directory(key);
        const bool there = ::access(snapshots.c_str(), F_OK) == 0;
        store::remove_snapshots(snapshots);
        std::cout << (there ? "removed " : "nothing to remove: there is no ") << snapshots << '\n';
        clean_disks(paths, key);
        return ExitCode::success;
      });
}

}  // namespace

std::vector<Subcommand> watch_commands() {
  return {
      {{"stop"}, "RUN [--now] [--wait [TIME]]", "ask a supervised run to save and end", stop},
      {{"status"}, "RUN [--watch] [--json]", "attempt, step and supervisor of a run", status},
      {{"report"}, "RUN [--price [GPU=]AMOUNT] [--json]", "where its time went, and cost", report},
      {{"nodes"}, "RUN [--json]", "hosts that were blamed for failures", nodes},
      {{"nodes", "release"}, "RUN HOST", "use a host again", release},
      {{"nodes", "clean"}, "RUN", "remove snapshots from this host", clean},
  };
}

}  // namespace trireme::supervisor
