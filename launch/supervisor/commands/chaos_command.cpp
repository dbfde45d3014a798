// trireme chaos: asks the supervisor of a run for one fault after another, and reports what came of
// each.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "launch/supervisor/commands/chaos_experiment.h"
#include "launch/supervisor/commands/commands.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/machine/rank_watch.h"
#include "runtime/options/check_options.h"

namespace trireme::supervisor {
namespace {

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
