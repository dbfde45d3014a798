#include "launch/chaos/trials.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "trireme/core/error.h"

namespace trireme::supervisor {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Whether a text names this rank, and not only the first digits of another one.
bool names(const std::string& text, const std::string& rank) {
  for (std::size_t at = text.find(rank); at != std::string::npos; at = text.find(rank, at + 1)) {
    const std::size_t end = at + rank.size();
    if (end == text.size() || !is_digit(text[end])) return true;
  }
  return false;
}

bool names_any_rank(const std::string& text) {
  const std::string mark = "rank ";
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1))
    if (at + mark.size() < text.size() && is_digit(text[at + mark.size()])) return true;
  return false;
}

/// `victim`: "host n1"
bool is_among(const std::string& victim, const std::vector<std::string>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const std::string& host) { return "host " + host == victim; });
}

struct Row {
  Index faults = 0, causes = 0, right = 0, wrong = 0, lost_steps = 0;
  std::vector<double> seconds;
};

std::map<std::string, Row> rows_of(const std::vector<Trial>& trials) {
  std::map<std::string, Row> rows;
  for (const Trial& trial : trials) {
    Row& row = rows[trial.fault.kind];
    ++row.faults;
    row.causes += trial.cause_is_right ? 1 : 0;
    row.right += trial.culprit == Culprit::right ? 1 : 0;
    row.wrong += trial.culprit == Culprit::wrong ? 1 : 0;
    row.lost_steps += trial.lost_steps;
    row.seconds.push_back(trial.seconds);
  }
  for (auto& [kind, row] : rows) std::sort(row.seconds.begin(), row.seconds.end());
  return rows;
}

}  // namespace

Culprit culprit_in(const std::string& text, const std::string& victim) {
  if (names(text, victim)) return Culprit::right;
  return names_any_rank(text) ? Culprit::wrong : Culprit::not_named;
}

Culprit culprit_in(const std::vector<WrongRank>& wrong, const Fault& fault) {
  Culprit culprit = Culprit::not_named;
  for (const WrongRank& each : wrong) {
    if (each.attempt != fault.attempt) continue;
    if (str("rank ", each.rank) != fault.victim) return Culprit::wrong;
    culprit = Culprit::right;
  }
  return culprit;
}

FaultDeck::FaultDeck(std::vector<std::string> kinds, Index seed)
    : kinds_(std::move(kinds)), random_(static_cast<std::uint64_t>(seed)) {}

FaultRequest FaultDeck::next(const std::string& token) {
  if (left_.empty()) {
    left_ = kinds_;
    std::shuffle(left_.begin(), left_.end(), random_);
  }
  FaultRequest request{token, left_.back(), static_cast<Index>(random_() >> 33)};
  left_.pop_back();
  return request;
}

bool FaultDeck::takes_hosts() const {
  return std::any_of(kinds_.begin(), kinds_.end(), [](const std::string& name) {
    const FaultKind* kind = find_fault_kind(name);
    return kind != nullptr && kind->takes_host;
  });
}

Index faults_with_spares(FaultDeck deck, Index most, Index spares) {
  if (!deck.takes_hosts()) return most;
  for (Index i = 0; i < most; ++i)
    if (find_fault_kind(deck.next("").kind)->takes_host && spares-- == 0) return i;
  return most;
}

Trial judge_trial(const Fault& fault, const AttemptEnded& ended, Index resumed, double seconds,
                  const std::vector<std::string>& suspects) {
  Trial trial;
  trial.fault = fault;
  trial.cause = name(ended.cause);
  const FaultKind* kind = find_fault_kind(fault.kind);
  trial.cause_is_right = kind != nullptr && kind->is_expected(ended.cause);
  if (kind != nullptr && kind->victim == Victim::rank)
    trial.culprit = culprit_in(ended.error, fault.victim);
  if (kind != nullptr && kind->victim == Victim::host) {
    std::vector<std::string> hosts;
    for (const Blame& blame : ended.blame) hosts.push_back(blame.host);
    if (!hosts.empty())
      trial.culprit = is_among(fault.victim, hosts) ? Culprit::right : Culprit::wrong;
    else if (suspects.size() == 1 && is_among(fault.victim, suspects))
      trial.culprit = Culprit::right;
  }
  // A host that is lost may be noticed first by the ranks of others, which do not move: it must be
  // among those that may be the reason, though it is named only where it is the only one.
  if (fault.kind == "node" && ended.cause == Cause::hang && trial.culprit != Culprit::right)
    trial.cause_is_right = ended.blame.empty() && is_among(fault.victim, suspects);
  trial.seconds = seconds;
  trial.lost_steps = std::max<Index>(0, ended.last_step - resumed);
  return trial;
}

std::vector<std::string> hosts_narrowed_down(std::vector<std::string> suspects,
                                             const std::vector<std::string>& hosts) {
  const bool all = std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return std::find(suspects.begin(), suspects.end(), host) != suspects.end();
  });
  if (all) suspects.clear();
  return suspects;
}

std::string to_text(const std::vector<Trial>& trials, Index steps, bool all_same) {
  std::string text =
      fmt::format("{:9} {:>7} {:>12} {:>14} {:>10} {:>9} {:>9} {:>11}\n", "kind", "faults",
                  "cause right", "culprit right", "not named", "median s", "max s", "lost steps");
  for (const auto& [kind, row] : rows_of(trials))
    text += fmt::format("{:9} {:>7} {:>12} {:>14} {:>10} {:>9.2f} {:>9.2f} {:>11.1f}\n", kind,
                        row.faults, row.causes, row.right, row.faults - row.right - row.wrong,
                        row.seconds[row.seconds.size() / 2], row.seconds.back(),
                        static_cast<double>(row.lost_steps) / static_cast<double>(row.faults));
  if (rows_of(trials).contains("xid"))
    text += "xid is simulated: a rank ends as if the driver of its GPU had reported Xid 79\n";
  if (all_same) text += fmt::format("of {} steps none has changed its bits\n", steps);
  return text;
}

Json to_json(const std::vector<Trial>& trials, Index steps) {
  Json::Array all;
  for (const Trial& trial : trials) {
    Json culprit;
    if (trial.culprit != Culprit::not_named) culprit = Json(trial.culprit == Culprit::right);
    all.emplace_back(Json::Object{{"kind", trial.fault.kind},
                                  {"victim", trial.fault.victim},
                                  {"attempt", trial.fault.attempt},
                                  {"cause", trial.cause},
                                  {"cause_is_right", trial.cause_is_right},
                                  {"culprit_is_right", std::move(culprit)},
                                  {"seconds", trial.seconds},
                                  {"lost_steps", trial.lost_steps}});
  }
  return Json::Object{{"faults", std::move(all)}, {"steps", steps}};
}

double recent_goodput(const History& history, Index now, Index window_s) {
  constexpr double least_s = 30;
  double wall_s = 0, useful_s = 0;
  for (const Attempt& attempt : history.attempts) {
    if (!attempt.ended) continue;
    if (attempt.ended->at < now - window_s) continue;
    wall_s += attempt.ended->wall_s + attempt.began.waited_s;
    useful_s += attempt.ended->useful_s;
  }
  if (!history.attempts.empty() && !history.attempts.back().ended) {
    const auto runs_s =
        static_cast<double>(std::clamp<Index>(now - history.attempts.back().began.at, 0, window_s));
    wall_s += runs_s;
    useful_s += runs_s;
  }
  return wall_s < least_s ? 1 : useful_s / wall_s;
}

void SeenSteps::forget_from(Index step) { seen_.erase(seen_.lower_bound(step), seen_.end()); }

void SeenSteps::compare(std::string_view metrics, const std::string& origin) {
  const std::string_view head = "{\"step\":", times = ",\"step_ms\":";
  for (std::size_t end; (end = metrics.find('\n')) != std::string_view::npos;
       metrics.remove_prefix(end + 1)) {
    const std::string_view line = metrics.substr(0, end);
    Index step = 0;
    if (!line.starts_with(head)) continue;
    const char* number = line.data() + head.size();
    if (std::from_chars(number, line.data() + line.size(), step).ec != std::errc()) continue;
    const std::string_view numbers = line.substr(0, line.find(times));
    const auto [seen, is_new] = seen_.emplace(step, std::hash<std::string_view>()(numbers));
    if (is_new) continue;
    require(seen->second == std::hash<std::string_view>()(numbers), origin, ": step ", step,
            " has other numbers than it had before: ", std::string(numbers));
  }
}

}  // namespace trireme::supervisor
