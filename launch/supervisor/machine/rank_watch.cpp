#include "launch/supervisor/machine/rank_watch.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/records/ledger.h"
#include "runtime/core/seconds_since.h"
#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/stack/stack_capture.h"
#include "runtime/observe/stragglers.h"
#include "runtime/store/file.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::supervisor {
namespace {

using Action = observe::HangWatch::Action;

constexpr double look_s = 0.05;  // a poll reads one cache line of each rank
constexpr double silent_s = 5;   // a machine that sends nothing for so long does not answer
constexpr double ask_s = 1;      // other machines at most so often

observe::HangLimits limits_of(double hang_s) {
  observe::HangLimits limits;
  if (hang_s > 0) limits.step_s = hang_s;
  return limits;
}

Json to_json(const std::vector<int>& ranks) {
  Json::Array array;
  for (const int rank : ranks) array.emplace_back(rank);
  return array;
}

Json to_json(const std::vector<std::string>& texts) {
  return Json::Array(texts.begin(), texts.end());
}

/// Suspects on several hosts are blamed only when the verdict is certain.
std::vector<std::string> blamed_hosts(const observe::Verdict& verdict) {
  const bool blames = verdict.blames_nodes() && (verdict.certain || verdict.hosts.size() == 1);
  return blames ? verdict.hosts : std::vector<std::string>();
}

/// Ranks of one stage do the same work where they run as many micro-batches.
std::string kind_of(const observe::PageState& page) {
  return page.coordinates.substr(0, page.coordinates.find(' ')) + ' ' +
         std::to_string(page.micro_batches);
}

observe::Stragglers stragglers_of(const std::vector<observe::PageState>& pages) {
  std::vector<observe::RankSeries> series;
  for (const observe::PageState& page : pages) {
    observe::RankSeries& rank = series.emplace_back();
    rank.rank = page.rank;
    rank.host = page.host;
    rank.compute.kind = kind_of(page);
    for (const observe::StepTime& step : page.steps)
      rank.compute.samples.push_back({step.step, static_cast<double>(step.compute_ns) / 1e9});
  }
  return observe::find_stragglers(series);
}

std::string describe(const observe::SlowRank& rank) {
  return fmt::format(
      "rank {} ({}) takes {:.2f} times as long to compute a step as others of its stage", rank.rank,
      rank.host, rank.ratio);
}

}  // namespace

RankWatch::RankWatch(Options options, std::unique_ptr<PageCollector> collector)
    : options_(std::move(options)),
      collector_(std::move(collector)),
      watch_({options_.ranks}, limits_of(options_.hang_s)) {
  readers_.resize(static_cast<std::size_t>(options_.ranks));
}

// When no machine answers, it may be this one that is cut off.
bool RankWatch::has_pages() const {
  if (collector_ && !collector_->any_answers_within(silent_s)) return false;
  return std::any_of(readers_.begin(), readers_.end(),
                     [](const auto& reader) { return reader != nullptr; });
}

void RankWatch::open_pages() {
  for (std::size_t rank = 0; rank < readers_.size(); ++rank) {
    if (readers_[rank]) continue;
    const std::string path = observe::page_path(options_.pages, static_cast<int>(rank));
    if (::access(path.c_str(), R_OK) != 0) continue;
    try {
      readers_[rank] = std::make_unique<observe::PageReader>(path);
    } catch (const Error&) {  // of a program of another version, which has none for us
    }
  }
}

std::vector<observe::RankProgress> RankWatch::progress() const {
  std::vector<observe::RankProgress> progress(readers_.size());
  for (std::size_t rank = 0; rank < readers_.size(); ++rank)
    if (readers_[rank]) progress[rank] = readers_[rank]->progress();
  return progress;
}

observe::RankReport RankWatch::remote_report(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  observe::RankReport report;
  report.rank = rank;
  report.host = listed_name("", rank, options_.hosts, options_.ranks_of_each);
  const auto remote = collector_->find(rank);
  if (!remote || !readers_[index]) return report;
  report.page = readers_[index]->read();
  report.page->read_ns += remote->clock_ahead_ns;
  report.host = listed_name(report.page->host, rank, options_.hosts, options_.ranks_of_each);
  // An agent that has ended says nothing about its node, nor do its last pages.
  if (!remote->connected && !report.page->has_ended()) return report.page.reset(), report;
  report.node_silent = remote->heard_s >= silent_s && !report.page->has_ended();
  report.process =
      remote->running ? observe::RankReport::Process::running : observe::RankReport::Process::ended;
  report.state = remote->state;
  return report;
}

std::vector<observe::RankReport> RankWatch::reports() const {
  if (collector_) {
    std::vector<observe::RankReport> reports;
    for (int rank = 0; rank < options_.ranks; ++rank) reports.push_back(remote_report(rank));
    return reports;
  }
  std::vector<observe::RankReport> reports(readers_.size());
  std::string host;
  for (std::size_t rank = 0; rank < readers_.size(); ++rank) {
    reports[rank].rank = static_cast<int>(rank);
    if (!readers_[rank]) continue;
    reports[rank] = observe::report_of(*readers_[rank]);
    host = reports[rank].host;
  }
  for (observe::RankReport& report : reports)
    if (report.host.empty()) report.host = host;  // all are of this machine
  return reports;
}

observe::Verdict RankWatch::judge(double now_s, const observe::JudgeOptions& options) {
  if (collector_ && (asked_at_ < 0 || now_s - asked_at_ >= ask_s)) {
    asked_at_ = now_s;
    collector_->request(silent_s);
  }
  return observe::judge(reports(), options);
}

std::optional<Hang> RankWatch::observe(double now_s) {
  if (collector_) collector_->poll();
  const double pause_s = options_.hang_s > 0 ? std::min(look_s, options_.hang_s / 5) : look_s;
  if (looked_at_ >= 0 && now_s - looked_at_ < pause_s) return std::nullopt;
  looked_at_ = now_s;
  open_pages();
  if (!has_pages()) return std::nullopt;
  observe::JudgeOptions judging;
  if (options_.hang_s > 0) judging.frozen_s = std::min(judging.frozen_s, options_.hang_s / 2);
  const auto decision = watch_.poll(now_s, progress(), [&] { return judge(now_s, judging); });
  // While other machines were asked, it may have become clear that this one is cut off.
  if (decision.action != Action::none && !has_pages()) return std::nullopt;
  if (decision.action == Action::none) {
    if (logged_quiet_s_ < 0 || decision.quiet_s >= logged_quiet_s_) return std::nullopt;
    logged_quiet_s_ = -1;
    remove_file(options_.folder + "/" + verdict_file);
    return Hang{.sentence = "the job moves again", .over = true};
  }
  logged_quiet_s_ = decision.quiet_s;
  write(decision);
  const observe::Verdict& verdict = decision.verdict;
  return Hang{.sentence = verdict.sentence,
              .kind = observe::name(verdict.kind) + std::string(verdict.group.empty() ? "" : " ") +
                      verdict.group,
              .hosts = blamed_hosts(verdict),
              .end = decision.action == Action::end,
              .all_have_finished = verdict.kind == observe::Verdict::Kind::exit};
}

/// Of the ranks that hold the others up, and of one that waits. An answer takes milliseconds, on a
/// busy machine longer.
Json RankWatch::stacks(const observe::Verdict& verdict) {
  constexpr std::size_t most = 8;
  constexpr double answer_s = 2, all_s = 4;
  const auto began = std::chrono::steady_clock::now();
  const auto left_s = [&](double longest_s) {
    return std::clamp(all_s - seconds_since(began), 0.1, longest_s);
  };
  std::vector<int> ranks = verdict.ranks;
  if (ranks.size() > most) ranks.resize(most);
  for (int rank = 0; rank < options_.ranks; ++rank)
    if (std::find(verdict.ranks.begin(), verdict.ranks.end(), rank) == verdict.ranks.end()) {
      ranks.push_back(rank);
      break;
    }
  Json::Array stacks;
  for (const int rank : ranks) {
    const auto& reader = readers_[static_cast<std::size_t>(rank)];
    if (!reader) continue;
    const observe::NamedStack stack = collector_
                                          ? collector_->stack_of(rank, left_s(answer_s + 1))
                                          : observe::capture_stack(*reader, left_s(answer_s));
    stacks.emplace_back(
        Json::Object{{"rank", rank}, {"frames", to_json(stack.frames)}, {"why", stack.why}});
  }
  return stacks;
}

void RankWatch::write(const observe::HangWatch::Decision& decision) {
  const observe::Verdict& verdict = decision.verdict;
  const bool end = decision.action == Action::end;
  Json::Object all{{"at", date_text(date_now())},
                   {"sentence", verdict.sentence},
                   {"kind", observe::name(verdict.kind)},
                   {"certain", verdict.certain},
                   {"ended", end},
                   {"ranks", to_json(verdict.ranks)},
                   {"hosts", to_json(verdict.hosts)},
                   {"group", verdict.group},
                   {"quiet_s", decision.quiet_s},
                   {"limit_s", decision.limit_s}};
  if (end) all.emplace_back("stacks", stacks(verdict));
  try {
    replace_file(options_.folder + "/" + verdict_file, to_text(Json(std::move(all))) + "\n");
  } catch (const Error&) {  // a full disk: what matters is in the log
  }
}

std::vector<observe::PageState> RankWatch::pages() const {
  std::vector<observe::PageState> pages;
  for (const auto& reader : readers_)
    if (reader) pages.push_back(reader->read());
  return pages;
}

std::string RankWatch::last_place(int rank) const {
  if (rank < 0 || rank >= options_.ranks || !readers_[static_cast<std::size_t>(rank)]) return "";
  observe::RankReport report;
  report.rank = rank;
  report.page = readers_[static_cast<std::size_t>(rank)]->read();
  report.host = options_.hosts.empty()
                    ? report.page->host
                    : listed_name(report.page->host, rank, options_.hosts, options_.ranks_of_each);
  return observe::describe_rank(report) + observe::describe_place(report);
}

double RankWatch::gpus_per_rank() {
  open_pages();  // also those of a job that ended before the next look
  for (const auto& reader : readers_)
    if (const Index sharing = reader ? reader->read().sharing : -1; sharing >= 0)
      return sharing == 0 ? 0 : 1 / static_cast<double>(sharing);
  return -1;
}

std::vector<std::string> RankWatch::slow() const { return describe_slow(pages()); }

std::vector<SlowHost> RankWatch::slow_hosts() const {
  std::vector<SlowHost> hosts;
  for (const observe::SlowRank& rank : stragglers_of(pages()).ranks) {
    const std::string name =
        listed_name(rank.host, rank.rank, options_.hosts, options_.ranks_of_each);
    const auto same = [&](const SlowHost& each) { return each.host == name; };
    const auto found = std::find_if(hosts.begin(), hosts.end(), same);
    SlowHost& host = found == hosts.end() ? hosts.emplace_back(SlowHost{name, "", 0}) : *found;
    if (rank.ratio <= host.ratio) continue;
    host.ratio = rank.ratio;
    host.why = describe(rank);
  }
  return hosts;
}

std::vector<observe::RankReport> reports_of_attempt(const Paths& paths, const History& history,
                                                    std::string& unreadable) {
  if (history.attempts.empty() || history.attempts.back().ended) return {};
  const AttemptBegan& began = history.attempts.back().began;
  const std::string key = key_of(paths, history.run);
  const PrivateDirectories own = find_private_directories(paths, key, began.attempt);
  const bool here = began.nodes.empty();
  std::vector<observe::RankReport> reports;
  for (const std::string& path : observe::find_pages(here ? own.pages() : own.copies())) try {
      const observe::PageReader reader(path);
      observe::RankReport report = observe::report_of(reader);
      if (!here) report.process = observe::RankReport::Process::unknown;
      const auto rank = static_cast<std::size_t>(report.rank);
      while (reports.size() <= rank) {
        const int next = static_cast<int>(reports.size());
        reports.emplace_back().rank = next;
      }
      reports[rank] = std::move(report);
    } catch (const Error& error) {
      if (::access(path.c_str(), F_OK) == 0) unreadable = error.what();  // it has not just ended
    }
  return reports;
}

std::vector<observe::PageState> pages_in(const std::vector<observe::RankReport>& reports) {
  std::vector<observe::PageState> pages;
  for (const observe::RankReport& report : reports)
    if (report.page) pages.push_back(*report.page);
  return pages;
}

std::vector<observe::PageState> pages_of_attempt(const Paths& paths, const History& history) {
  std::string unreadable;
  return pages_in(reports_of_attempt(paths, history, unreadable));
}

std::string describe_process(const observe::RankReport& rank) {
  switch (rank.process) {
    case observe::RankReport::Process::unknown:
      return "unknown";
    case observe::RankReport::Process::ended:
      return "gone";
    case observe::RankReport::Process::running:
      break;
  }
  switch (rank.state.state) {
    case 'T':
      return "stopped (SIGSTOP)";
    case 'Z':  // nobody has asked for its exit code so far
    case 'X':
      return "gone";
    default:
      return "running";
  }
}

std::string describe_stall(const std::vector<observe::RankReport>& reports) {
  constexpr double least_s = 1;
  for (const observe::RankReport& report : reports)
    if (report.page && report.page->age_s(report.page->moved_ns) < least_s) return "";
  const observe::Verdict verdict = observe::judge(reports, {.frozen_s = least_s});
  if (verdict.kind == observe::Verdict::Kind::none) return "";
  const std::string alarm = "hang: ";  // whether it is one, the supervisor says
  return verdict.sentence.substr(verdict.sentence.starts_with(alarm) ? alarm.size() : 0);
}

std::vector<std::string> describe_slow(const std::vector<observe::PageState>& pages) {
  const observe::Stragglers found = stragglers_of(pages);
  std::vector<std::string> lines;
  for (const observe::SlowNode& node : found.nodes)
    lines.push_back(
        fmt::format("{}: {} of its {} ranks are slow", node.host, node.slow_ranks, node.ranks));
  for (const observe::SlowRank& rank : found.ranks) lines.push_back(describe(rank));
  return lines;
}

}  // namespace trireme::supervisor
