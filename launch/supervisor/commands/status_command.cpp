// trireme status: who supervises a run, and what its ranks do.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include <fmt/format.h>

#include "launch/supervisor/commands/commands.h"
#include "launch/supervisor/machine/progress.h"
#include "launch/supervisor/machine/rank_watch.h"
#include "launch/supervisor/machine/run_directory.h"
#include "launch/supervisor/machine/terminal.h"
#include "launch/supervisor/records/ledger.h"
#include "runtime/core/text/one_line.h"
#include "runtime/observe/page_reader.h"
#include "runtime/store/file.h"
#include "runtime/store/inspect/inspect.h"
#include "runtime/store/lease/lease.h"

namespace trireme::supervisor {
namespace {

/// What is known of a run from its files.
struct Status {
  std::string supervisor;  // empty: none
  History history;
  Index durable = 0, last_step = 0;
  StepRate rate;
  std::vector<observe::RankReport> ranks;  // at work, or left by a supervisor that died
  std::vector<observe::PageState> pages;   // of these ranks
  std::string unreadable;                  // why the page of some rank cannot be read
  std::string verdict;                     // why the job at work does not move; empty: it does

  bool at_work() const {
    return !supervisor.empty() && !history.attempts.empty() && !history.attempts.back().ended;
  }
};

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

bool are_gone(const std::vector<observe::RankReport>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const observe::RankReport& rank) {
    return !rank.page || describe_process(rank) == "gone";
  });
}

std::string to_text(const observe::RankReport& rank) {
  const observe::PageState& page = *rank.page;
  std::string text = fmt::format("  rank {}", page.rank);
  if (!page.coordinates.empty()) text += fmt::format(" ({})", page.coordinates);
  text += fmt::format(": {}", observe::name(page.phase));
  if (page.step >= 0) text += fmt::format(", step {}", page.step);
  const std::string process = describe_process(rank);
  if (process != "running" && process != "unknown") text += ", " + process;
  if (!page.error.empty()) text += ": " + page.error;
  return text + "\n";
}

std::string describe_ranks(const Status& status) {
  if (status.supervisor.empty() && !status.ranks.empty()) {
    if (are_gone(status.ranks)) return "  ranks: gone\n";
    if (!status.history.attempts.back().began.nodes.empty())
      return "  ranks: their supervisor died, so what they do is not known\n";
  }
  std::string text;
  for (const observe::RankReport& rank : status.ranks)
    if (rank.page) text += to_text(rank);
  return text;
}

/// Since when an attempt at work has done no step, where that is longer than usual, and why.
std::string describe_pause(const Status& status) {
  constexpr double least_s = 1, unusual = 3;
  const StepRate& rate = status.rate;
  const std::string why = status.verdict.empty() ? "" : ": " + status.verdict;
  if (!status.at_work()) return "";
  if (rate.usual_s <= 0 || rate.age_s < std::max(least_s, unusual * rate.usual_s))
    return status.verdict.empty() ? "" : "  " + status.verdict + "\n";
  return fmt::format("  no step for {:.0f} s (usual {:.2g} s){}\n", rate.age_s, rate.usual_s, why);
}

Status status_of(const Paths& paths) {
  Status status;
  status.history = history_of(paths);
  status.supervisor = supervisor_of(paths).value_or("");
  const std::vector<Index> durable = durable_steps(paths.run, 1);
  status.durable = durable.empty() ? 0 : durable.front();
  const std::string metrics = status.history.metrics_in(paths.run);
  status.last_step = last_step_in(metrics);
  status.rate = step_rate_in(metrics);
  status.ranks = reports_of_attempt(paths, status.history, status.unreadable);
  status.pages = pages_in(status.ranks);
  if (!status.at_work()) return status;
  // The supervisor needs longer to call it a hang. It sees other machines, too.
  if (status.history.attempts.back().began.nodes.empty())
    status.verdict = describe_stall(status.ranks);
  if (status.verdict.empty()) status.verdict = verdict_of(paths, status.history);
  return status;
}

/// The newest step that all ranks have in a tier (memory, local disks); -1: none, or not known
/// here.
Index step_of_all(const std::vector<observe::PageState>& pages, Index observe::PageState::*tier) {
  Index step = pages.empty() ? -1 : pages.front().*tier;
  for (const observe::PageState& page : pages) step = std::min(step, page.*tier);
  return step;
}

std::string describe_snapshots(const std::vector<observe::PageState>& pages) {
  const Index memory = step_of_all(pages, &observe::PageState::memory_step),
              local = step_of_all(pages, &observe::PageState::local_step);
  return (memory < 0 ? "" : fmt::format(", in memory step {}", memory)) +
         (local < 0 ? "" : fmt::format(", on local disks step {}", local));
}

/// "step 30 in memory": where an attempt began.
std::string describe_start(const Attempt& attempt) {
  const std::string& tier = attempt.started.tier;
  if (tier == "memory") return fmt::format("step {} in memory", attempt.started.step);
  if (tier == "local") return fmt::format("step {} on local disks", attempt.started.step);
  return fmt::format("step {}", attempt.began.resumed);
}

/// " (pp1 dp1 tp2, fewer hosts than --nodes)"; empty: not known.
std::string describe_layout(const AttemptBegan& began) {
  if (began.layout.empty()) return "";
  return " (" + began.layout + (began.fewer ? ", fewer hosts than --nodes)" : ")");
}

std::string to_text(const Status& status) {
  std::string text = fmt::format("{}: {}\n", status.history.run,
                                 state_of(status.history, !status.supervisor.empty()));
  if (!status.supervisor.empty()) text += fmt::format("  supervisor: {}\n", status.supervisor);
  text += fmt::format("  step {}, newest durable step {}{}\n", status.last_step, status.durable,
                      describe_snapshots(status.pages));
  if (status.history.attempts.empty()) return text;
  const Attempt& last = status.history.attempts.back();
  text += fmt::format("  attempt {}: {} rank{}{}, from {}", last.began.attempt, last.began.ranks,
                      last.began.ranks == 1 ? "" : "s", describe_layout(last.began),
                      describe_start(last));
  if (const auto age = age_s(date_text(last.began.at), date_now()))
    text += fmt::format(", began {} ago", readable_age(*age));
  if (last.ended)
    text += fmt::format("; ended: {} (exit code {}){}", name(last.ended->cause), last.ended->code,
                        last.ended->error.empty() ? "" : ": " + last.ended->error);
  text += "\n";
  text += describe_pause(status);
  if (const auto& spikes = status.history.spikes; !spikes.empty())
    text += fmt::format("  loss spikes: {}, the last to step {} in attempt {}\n", spikes.size(),
                        spikes.back().step, spikes.back().attempt);
  text += describe_ranks(status);
  if (!status.unreadable.empty()) text += "  " + status.unreadable + "\n";
  for (const std::string& slow : describe_slow(status.pages)) text += "  slow: " + slow + "\n";
  return text;
}

Json to_json(const observe::RankReport& rank) {
  const observe::PageState& page = *rank.page;
  return Json::Object{{"rank", Index{page.rank}},
                      {"phase", observe::name(page.phase)},
                      {"step", page.step >= 0 ? Json(page.step) : Json()},
                      {"process", describe_process(rank)}};
}

Json to_json(const Status& status) {
  const History& history = status.history;
  const Index memory = step_of_all(status.pages, &observe::PageState::memory_step),
              local = step_of_all(status.pages, &observe::PageState::local_step);
  Json::Object all{{"run", history.run},
                   {"state", state_of(history, !status.supervisor.empty())},
                   {"supervisor", status.supervisor.empty() ? Json() : Json(status.supervisor)},
                   {"step", status.last_step},
                   {"durable", status.durable},
                   {"step_age_s", status.at_work() ? Json(status.rate.age_s) : Json()},
                   {"usual_step_s", status.rate.usual_s},
                   {"memory", memory < 0 ? Json() : Json(memory)},
                   {"local", local < 0 ? Json() : Json(local)},
                   {"attempts", static_cast<Index>(history.attempts.size())}};
  if (!history.attempts.empty()) {
    const Attempt& last = history.attempts.back();
    all.emplace_back("attempt", last.began.attempt);
    all.emplace_back("ranks", last.began.ranks);
    all.emplace_back("layout", last.began.layout.empty() ? Json() : Json(last.began.layout));
    all.emplace_back("cause", last.ended ? Json(name(last.ended->cause)) : Json());
  }
  Json::Array pages;
  for (const observe::RankReport& rank : status.ranks)
    if (rank.page) pages.push_back(to_json(rank));
  all.emplace_back("pages", std::move(pages));
  const std::vector<std::string> slow = describe_slow(status.pages);
  all.emplace_back("slow", Json::Array(slow.begin(), slow.end()));
  Json::Array spikes;
  for (const LossSpike& spike : history.spikes) spikes.push_back(to_json(spike));
  all.emplace_back("loss_spikes", std::move(spikes));
  all.emplace_back("verdict", status.verdict.empty() ? Json() : Json(status.verdict));
  all.emplace_back("exit_code", history.end ? Json(history.end->code) : Json());
  return all;
}

}  // namespace

std::string state_of(const History& history, bool supervised) {
  if (history.end) return fmt::format("ended with {}: {}", history.end->code, history.end->why);
  if (!supervised) return "its supervisor died; start `trireme run` again";
  const bool at_work = !history.attempts.empty() && !history.attempts.back().ended;
  return at_work ? "at work" : "between attempts";
}

int status(int argc, char** argv) {
  std::string run;
  bool json = false, watch = false;
  CommandLine command(
      "trireme status",
      "Who supervises a run, its attempt, step and newest checkpoint. On the machine of "
      "the supervisor also what each rank does, and what holds them up.");
  command.positional("RUN", run, run_help);
  command.flag("--json", json, "print one line of JSON instead of text");
  command.flag("--watch", watch,
               "print again each second until the supervisor has ended; on a terminal in place");
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) { open_input(problems, [&] { history_of(Paths(run)); }); },
      [&] {
        std::string shown;
        for (;;) {
          const Status found = status_of(Paths(run));
          const TerminalSize size = json ? TerminalSize() : terminal_size();
          if (size.columns > 0) std::cout << back_over(shown, size);
          shown = json ? trireme::to_text(to_json(found)) + "\n" : printable(to_text(found));
          std::cout << shown << std::flush;
          if (!watch || found.supervisor.empty() || !std::cout) return ExitCode::success;
          std::this_thread::sleep_for(std::chrono::seconds(1));
        }
      });
}

}  // namespace trireme::supervisor
