#include "launch/supervisor/machine/rank_watch.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/run_directory.h"
#include "runtime/observe/hang/verdict_text.h"
#include "runtime/observe/stack/stack_capture.h"
#include "runtime/observe/stragglers.h"
#include "runtime/store/file.h"

namespace trireme::supervisor {
namespace {

using Action = observe::HangWatch::Action;

constexpr double look_s = 0.2;

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

/// Ranks of one stage do the same work.
std::string kind_of(const observe::PageState& page) {
  return page.coordinates.substr(0, page.coordinates.find(' '));
}

}  // namespace

RankWatch::RankWatch(Options options)
    : options_(std::move(options)), watch_({options_.ranks}, limits_of(options_.hang_s)) {
  readers_.resize(static_cast<std::size_t>(options_.ranks));
}

bool RankWatch::has_pages() const {
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

std::vector<observe::RankReport> RankWatch::reports() const {
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

std::optional<Hang> RankWatch::look(double now_s) {
  const double pause_s = options_.hang_s > 0 ? std::min(look_s, options_.hang_s / 5) : look_s;
  if (looked_at_ >= 0 && now_s - looked_at_ < pause_s) return std::nullopt;
  looked_at_ = now_s;
  open_pages();
  if (!has_pages()) return std::nullopt;
  observe::JudgeOptions judging;
  if (options_.hang_s > 0) judging.frozen_s = std::min(judging.frozen_s, options_.hang_s / 2);
  const auto decision =
      watch_.poll(now_s, progress(), [&] { return observe::judge(reports(), judging); });
  if (decision.action == Action::none) {
    if (logged_quiet_s_ < 0 || decision.quiet_s >= logged_quiet_s_) return std::nullopt;
    logged_quiet_s_ = -1;
    remove_file(options_.folder + "/" + verdict_file);
    return Hang{.sentence = "the job moves again"};
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

/// Of the ranks that hold the others up, and of one that waits.
Json RankWatch::stacks(const observe::Verdict& verdict) const {
  constexpr std::size_t most = 8;
  constexpr double answer_s = 0.5;
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
    const observe::NamedStack stack = observe::capture_stack(*reader, answer_s);
    stacks.emplace_back(
        Json::Object{{"rank", rank}, {"frames", to_json(stack.frames)}, {"why", stack.why}});
  }
  return stacks;
}

void RankWatch::write(const observe::HangWatch::Decision& decision) const {
  const observe::Verdict& verdict = decision.verdict;
  const bool end = decision.action == Action::end;
  Json::Object all{{"at", date_text(Index{std::time(nullptr)})},
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

std::vector<std::string> RankWatch::slow() const {
  std::vector<observe::PageState> pages;
  for (const auto& reader : readers_)
    if (reader) pages.push_back(reader->read());
  return describe_slow(pages);
}

std::vector<std::string> describe_slow(const std::vector<observe::PageState>& pages) {
  std::vector<observe::RankSeries> series;
  for (const observe::PageState& page : pages) {
    observe::RankSeries& rank = series.emplace_back();
    rank.rank = page.rank;
    rank.host = page.host;
    rank.compute.kind = kind_of(page);
    for (const observe::StepTime& step : page.steps)
      rank.compute.samples.push_back({step.step, static_cast<double>(step.compute_ns) / 1e9});
  }
  const observe::Stragglers found = observe::find_stragglers(series);
  std::vector<std::string> lines;
  for (const observe::SlowNode& node : found.nodes)
    lines.push_back(
        fmt::format("{}: {} of its {} ranks are slow", node.host, node.slow_ranks, node.ranks));
  for (const observe::SlowRank& rank : found.ranks)
    lines.push_back(
        fmt::format("rank {} ({}) takes {:.2f} times as long to compute a step as "
                    "others of its stage",
                    rank.rank, rank.host, rank.ratio));
  return lines;
}

}  // namespace trireme::supervisor
