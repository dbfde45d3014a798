// trireme stop, status, report, nodes: of a run that `trireme run` supervises, or has supervised.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "launch/supervisor/commands/commands.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/supervisor/machine/metrics_tail.h"
#include "launch/supervisor/machine/preflight_figures.h"
#include "launch/supervisor/machine/rank_watch.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/records/goodput.h"
#include "launch/supervisor/records/nodes.h"
#include "runtime/observe/page_reader.h"
#include "runtime/store/file.h"
#include "runtime/store/inspect/inspect.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/tiers/slots.h"

namespace trireme::supervisor {
namespace {

constexpr const char* run_help = "directory of a run (--save)";

Index now() { return Index{std::time(nullptr)}; }

/// Throws: Error when no supervisor ever had the run.
History history_of(const Paths& paths) {
  require(::access(paths.ledger.c_str(), F_OK) == 0, paths.run,
          " is no run of `trireme run`: there is no ", paths.ledger);
  return read_history(paths);
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
  std::cout << (history.end ? fmt::format("ended with {}: {}", history.end->code, history.end->why)
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
      command, argc, pointers.data(), [](Problems&) {},
      [&] {
        const Paths paths(run);
        const auto holder = supervisor_of(paths);
        require(holder.has_value(), paths.run, ": no supervisor runs");
        replace_file(paths.stop, at_once ? "now\n" : "save\n");
        std::cout << "asked " << *holder << " to stop\n" << std::flush;
        return wait_s > 0 ? wait_for_end(paths, wait_s) : ExitCode::success;
      });
}

/// What is known of a run from its files.
struct Status {
  std::string supervisor;  // empty: none
  History history;
  Index durable = 0, last_step = 0;
  std::vector<observe::PageState> pages;  // of ranks at work on this machine
  std::string verdict;                    // why the job at work does not move; empty: it does
};

/// Of the attempt that is under way; none on another machine than the supervisor's.
std::vector<observe::PageState> pages_of(const Paths& paths, const History& history) {
  std::vector<observe::PageState> pages;
  if (history.attempts.empty() || history.attempts.back().ended) return pages;
  const std::string key = key_of(paths, history.run);
  for (const std::string& path :
       observe::find_pages(pages_directory(key, history.attempts.back().began.attempt)))
    try {
      pages.push_back(observe::PageReader(path).read());
    } catch (const Error&) {  // the attempt has just ended, or is that of another version
    }
  return pages;
}

/// Of the attempt that is under way.
std::string verdict_of(const Paths& paths, const History& history) {
  if (history.attempts.empty() || history.attempts.back().ended) return "";
  const std::string path =
      paths.attempt(history.attempts.back().began.attempt) + "/" + verdict_file;
  if (::access(path.c_str(), R_OK) != 0) return "";
  try {
    const Json verdict = parse_json(read_whole(path, Index{1} << 20));
    const Json* sentence = verdict.find("sentence");
    const auto* text = sentence ? std::get_if<std::string>(&sentence->value) : nullptr;
    return text != nullptr ? *text : "";
  } catch (const Error&) {  // the job has just moved again
    return "";
  }
}

std::string to_text(const observe::PageState& page) {
  std::string text = fmt::format("  rank {}", page.rank);
  if (!page.coordinates.empty()) text += fmt::format(" ({})", page.coordinates);
  text += fmt::format(": {}", observe::name(page.phase));
  if (page.step >= 0) text += fmt::format(", step {}", page.step);
  if (!page.error.empty()) text += ": " + page.error;
  return text + "\n";
}

Status status_of(const Paths& paths) {
  Status status;
  status.history = history_of(paths);
  status.supervisor = supervisor_of(paths).value_or("");
  const std::vector<Index> durable = durable_steps(paths.run, 1);
  status.durable = durable.empty() ? 0 : durable.front();
  status.last_step = last_step_in(status.history.metrics_in(paths.run));
  status.pages = pages_of(paths, status.history);
  status.verdict = verdict_of(paths, status.history);
  return status;
}

/// "training", "waiting", or how the last supervisor ended.
std::string state_of(const Status& status) {
  const History& history = status.history;
  if (history.end) return fmt::format("ended with {}: {}", history.end->code, history.end->why);
  if (status.supervisor.empty()) return "its supervisor died; start `trireme run` again";
  const bool at_work = !history.attempts.empty() && !history.attempts.back().ended;
  return at_work ? "at work" : "between attempts";
}

/// " (pp1 dp1 tp2, fewer hosts than --nodes)"; empty: not known.
std::string describe_layout(const AttemptBegan& began) {
  if (began.layout.empty()) return "";
  return " (" + began.layout + (began.fewer ? ", fewer hosts than --nodes)" : ")");
}

std::string to_text(const Status& status) {
  std::string text = fmt::format("{}: {}\n", status.history.run, state_of(status));
  if (!status.supervisor.empty()) text += fmt::format("  supervisor: {}\n", status.supervisor);
  text += fmt::format("  step {}, newest durable step {}\n", status.last_step, status.durable);
  if (status.history.attempts.empty()) return text;
  const Attempt& last = status.history.attempts.back();
  text += fmt::format("  attempt {}: {} ranks{}, from step {}", last.began.attempt,
                      last.began.ranks, describe_layout(last.began), last.began.resumed);
  if (const auto age = age_s(date_text(last.began.at), now()))
    text += fmt::format(", began {} ago", readable_age(*age));
  if (last.ended)
    text += fmt::format("; ended: {} (exit code {}){}", last.ended->cause, last.ended->code,
                        last.ended->error.empty() ? "" : ": " + last.ended->error);
  text += "\n";
  if (!status.verdict.empty()) text += "  " + status.verdict + "\n";
  for (const observe::PageState& page : status.pages) text += to_text(page);
  for (const std::string& slow : describe_slow(status.pages)) text += "  slow: " + slow + "\n";
  return text;
}

Json to_json(const observe::PageState& page) {
  return Json::Object{{"rank", Index{page.rank}},
                      {"phase", observe::name(page.phase)},
                      {"step", page.step >= 0 ? Json(page.step) : Json()}};
}

Json to_json(const Status& status) {
  const History& history = status.history;
  Json::Object all{{"run", history.run},
                   {"state", state_of(status)},
                   {"supervisor", status.supervisor.empty() ? Json() : Json(status.supervisor)},
                   {"step", status.last_step},
                   {"durable", status.durable},
                   {"attempts", static_cast<Index>(history.attempts.size())}};
  if (!history.attempts.empty()) {
    const Attempt& last = history.attempts.back();
    all.emplace_back("attempt", last.began.attempt);
    all.emplace_back("ranks", last.began.ranks);
    all.emplace_back("layout", last.began.layout.empty() ? Json() : Json(last.began.layout));
    all.emplace_back("cause", last.ended ? Json(last.ended->cause) : Json());
  }
  Json::Array pages;
  for (const observe::PageState& page : status.pages) pages.push_back(to_json(page));
  all.emplace_back("pages", std::move(pages));
  const std::vector<std::string> slow = describe_slow(status.pages);
  all.emplace_back("slow", Json::Array(slow.begin(), slow.end()));
  all.emplace_back("verdict", status.verdict.empty() ? Json() : Json(status.verdict));
  all.emplace_back("exit_code", history.end ? Json(history.end->code) : Json());
  return all;
}

int status(int argc, char** argv) {
  std::string run;
  bool json = false, watch = false;
  CommandLine command(
      "trireme status",
      "Who supervises a run, its attempt, step and newest checkpoint. On the machine of "
      "its ranks also what each does, and what holds them up.");
  command.positional("RUN", run, run_help);
  command.flag("--json", json, "print one line of JSON instead of text");
  command.flag("--watch", watch, "print again each second until the supervisor has ended");
  return parse_and_run(
      command, argc, argv, [](Problems&) {},
      [&] {
        for (;;) {
          const Status found = status_of(Paths(run));
          std::cout << (json ? trireme::to_text(to_json(found)) + "\n" : to_text(found))
                    << std::flush;
          if (!watch || found.supervisor.empty() || !std::cout) return ExitCode::success;
          std::this_thread::sleep_for(std::chrono::seconds(1));
        }
      });
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
  return parse_and_run(
      command, argc, argv, [](Problems&) {},
      [&] {
        const Goodput found = goodput(history_of(Paths(run)));
        std::cout << (json ? trireme::to_text(to_json(found, price)) + "\n"
                           : to_text(found, price));
        return ExitCode::success;
      });
}

int nodes(int argc, char** argv) {
  std::string run;
  bool json = false;
  CommandLine command("trireme nodes",
                      "Hosts that were blamed for failures in the last 24 hours, with their "
                      "points; with 3 points a host is in quarantine. And the figures of "
                      "--preflight short.");
  command.positional("RUN", run, run_help);
  command.flag("--json", json, "print one line of JSON instead of text");
  return parse_and_run(
      command, argc, argv, [](Problems&) {},
      [&] {
        const Paths paths(run);
        const auto states = node_states(history_of(paths), now());
        const preflight::Report figures = read_preflight(paths);
        if (json) {
          Json all = to_json(states);
          add_figures(all, figures);
          std::cout << trireme::to_text(all) << '\n';
          return ExitCode::success;
        }
        if (states.empty()) std::cout << "no host was blamed in the last 24 hours\n";
        for (const NodeState& state : states) {
          std::cout << fmt::format("{}: {} points{}\n", state.host, state.points,
                                   state.quarantined() ? ", in quarantine" : "");
          for (const std::string& reason : state.reasons) std::cout << "  " << reason << '\n';
        }
        std::cout << text_of_figures(figures);
        return ExitCode::success;
      });
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
      command, argc, argv, [](Problems&) {},
      [&] {
        const Paths paths(run);
        const History history = history_of(paths);
        const auto states = node_states(history, now());
        const auto same = [&](const auto& each) { return each.host == host; };
        const preflight::Report figures = read_preflight(paths);
        require(std::any_of(states.begin(), states.end(), same) ||
                    std::any_of(figures.nodes.begin(), figures.nodes.end(), same),
                host, " was neither blamed in the last 24 hours nor measured by --preflight short");
        if (supervisor_of(paths)) {
          replace_file(paths.folder + "/" + release_prefix + host, "");
          std::cout << "the supervisor takes it before its next attempt\n";
        } else {
          const auto lease = take_run(paths);
          LedgerFile(paths.ledger).append(to_json(Release{host, now(), 0}));
          std::cout << host << " is released\n";
        }
        return ExitCode::success;
      });
}

int clean(int argc, char** argv) {
  std::string run;
  CommandLine command("trireme nodes clean",
                      "Removes the snapshots that a run has in memory of this host "
                      "(--save-memory-interval). It then resumes from its newest durable step.");
  command.positional("RUN", run, run_help);
  return parse_and_run(
      command, argc, argv, [](Problems&) {},
      [&] {
        const Paths paths(run);
        const History history = history_of(paths);
        const auto holder = supervisor_of(paths);
        require(!holder, paths.run, ": ", holder.value_or(""),
                " supervises this run, whose job uses its snapshots: stop it first");
        const std::string snapshots = store::snapshot_directory(key_of(paths, history.run));
        const bool there = ::access(snapshots.c_str(), F_OK) == 0;
        store::remove_snapshots(snapshots);
        std::cout << (there ? "removed " : "nothing to remove: there is no ") << snapshots << '\n';
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
      {{"nodes", "clean"}, "RUN", "remove snapshots from memory of this host", clean},
  };
}

}  // namespace trireme::supervisor
