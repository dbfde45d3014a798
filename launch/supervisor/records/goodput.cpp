#include "launch/supervisor/records/goodput.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/text/line_clock.h"

namespace trireme::supervisor {
namespace {

constexpr double hour = 3600;

/// "1 step", "3 steps".
std::string count(Index number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string line(const char* what, double seconds, double wall_s) {
  return fmt::format("  {:<38}{:>10.1f} s {:>6.1f} %\n", what, seconds,
                     wall_s > 0 ? 100 * seconds / wall_s : 0.0);
}

}  // namespace

void StepTimes::durable(Index number) {
  const auto kept = std::partition(open_.begin(), open_.end(),
                                   [&](const Step& step) { return step.number > number; });
  for (auto step = kept; step != open_.end(); ++step) durable_s_ += step->seconds;
  open_.erase(kept, open_.end());
}

double StepTimes::open_s() const {
  double sum = 0;
  for (const Step& step : open_) sum += step.seconds;
  return sum;
}

namespace {

/// GPUs of a rank, as any attempt has said; nothing: none has.
std::optional<double> gpus_per_rank(const History& history) {
  std::optional<double> found;
  for (const Attempt& attempt : history.attempts)
    if (attempt.ended && attempt.ended->gpus_per_rank >= 0) found = attempt.ended->gpus_per_rank;
  return found;
}

/// Hosts of an attempt that train.
double nodes_of(const AttemptBegan& began) {
  return began.nodes.empty() ? 1 : static_cast<double>(began.nodes.size());
}

void add_hours(Goodput::Hours& sum, double training, const AttemptBegan& began, double wall_s,
               double lost_s) {
  const double spare = began.ranks == 0 ? 0
                                        : training * static_cast<double>(began.spares) /
                                              static_cast<double>(began.ranks);
  sum.all += (training + spare) * wall_s / hour;
  sum.spare += spare * wall_s / hour;
  sum.lost += (training + spare) * lost_s / hour;
}

std::string describe_hours(const Goodput& g) {
  const bool gpus = g.gpu.all > 0 || g.node.all == 0;
  const Goodput::Hours& hours = gpus ? g.gpu : g.node;
  const std::string_view note = !gpus            ? " (no GPU)"
                                : g.gpus_assumed ? " (one GPU a rank is assumed)"
                                                 : "";
  return fmt::format("{}-hours{}: {:.3f}, of them {:.3f} of spares; lost to failures {:.3f}\n",
                     gpus ? "GPU" : "node", note, hours.all, hours.spare, hours.lost);
}

const Goodput::Hours& hours_for(const Goodput& g, const Price& price) {
  return price.of_node() ? g.node : g.gpu;
}

std::string describe_cost(const Goodput& g, const Price& price) {
  const Goodput::Hours& hours = hours_for(g, price);
  if (hours.all == 0 && g.node.all > 0)
    return "cost: no GPU was used; --price node=AMOUNT is for an hour of a node\n";
  return fmt::format("cost at {} an hour{}: {:.2f}; lost to failures {:.2f}\n", price.amount,
                     price.gpu.empty() ? "" : " of a " + price.gpu, hours.all * price.amount,
                     hours.lost * price.amount);
}

}  // namespace

double Goodput::ratio_with_hosts() const {
  return wall_s > no_hosts_s ? useful_s / (wall_s - no_hosts_s) : 0;
}

Goodput goodput(const History& history) {
  Goodput sum;
  const std::optional<double> gpus = gpus_per_rank(history);
  sum.gpus_assumed = !gpus;
  AttemptLine* failed = nullptr;  // the attempt before, where it has failed
  sum.lines.reserve(history.attempts.size());
  for (std::size_t i = 0; i < history.attempts.size(); ++i) {
    const Attempt& attempt = history.attempts[i];
    sum.from_memory += attempt.started.tier == "memory" ? 1 : 0;
    sum.from_local += attempt.started.tier == "local" ? 1 : 0;
    if (attempt.began.saves) {
      sum.chosen = attempt.began.saves;
      sum.chosen_in = attempt.began.attempt;
    }
    AttemptLine& line = sum.lines.emplace_back();
    line.attempt = attempt.began.attempt;
    line.at = attempt.began.at;
    if (!attempt.ended) continue;
    AttemptEnded ended = *attempt.ended;
    const RecoveredSteps recovered = recovered_steps(history, i);
    ended.useful_s += recovered.seconds;
    ended.lost_s -= recovered.seconds;
    ++sum.attempts;
    const std::string of_attempt = fmt::format("attempt {}: ", attempt.began.attempt);
    for (const std::string& slow : ended.slow) sum.notes.push_back(of_attempt + slow);
    for (const LossSpike& spike : history.spikes)
      if (spike.attempt == attempt.began.attempt)
        sum.notes.push_back(of_attempt + fmt::format("loss spike to step {}", spike.step));
    sum.useful_s += ended.useful_s;
    sum.lost_s += ended.lost_s;
    sum.start_s += ended.start_s;
    sum.stall_s += ended.stall_s - ended.detect_s;
    sum.detect_s += ended.detect_s;
    sum.waited_s += attempt.began.waited_s;
    sum.no_hosts_s += attempt.began.no_hosts_s;
    sum.preflight_s += attempt.began.preflight_s;
    const double wall_s = ended.wall_s + attempt.began.waited_s;
    sum.wall_s += wall_s;
    if (!attempt.began.layout.empty()) sum.layouts[attempt.began.layout] += ended.wall_s;
    const double restart_s = failed == nullptr ? 0 : ended.start_s + attempt.began.waited_s;
    if (failed != nullptr) {
      failed->lost_s += restart_s;
      sum.causes[*failed->cause].lost_s += restart_s;
    }
    line.at = ended.at;
    line.cause = ended.cause;
    line.reason = ended.error;
    failed = is_failure(ended.cause) ? &line : nullptr;
    if (failed != nullptr) line.lost_s = ended.lost_s + ended.detect_s;
    const double lost_s = restart_s + line.lost_s;
    const double ranks = static_cast<double>(attempt.began.ranks);
    add_hours(sum.gpu, ranks * gpus.value_or(1), attempt.began, wall_s, lost_s);
    add_hours(sum.node, nodes_of(attempt.began), attempt.began, wall_s, lost_s);
    if (failed == nullptr) continue;
    line.lost_steps = recovered.lost_steps;
    ++sum.failures;
    Goodput::Cost& cost = sum.causes[ended.cause];
    ++cost.failures;
    cost.lost_s += line.lost_s;
    cost.lost_steps += recovered.lost_steps;
    for (const Blame& blame : ended.blame)
      if (blame.points > 0) ++sum.failures_of_host[blame.host];
  }
  sum.saves = save_interval(history);
  return sum;
}

Price parse_price(const std::string& text) {
  Price price;
  const std::size_t equals = text.rfind('=');
  if (equals != std::string::npos) price.gpu = text.substr(0, equals);
  const std::string amount = equals == std::string::npos ? text : text.substr(equals + 1);
  std::size_t used = 0;
  try {
    price.amount = std::stod(amount, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  require(used > 0 && used == amount.size() && price.amount > 0 && price.amount < 1e9,
          "expected an amount for an hour of a GPU, such as 2.5 or H100=2.5, or of a node, such as "
          "node=0.4");
  return price;
}

std::string to_text(const Goodput& g, const Price& price) {
  std::string text =
      fmt::format("{}, {}, {:.1f} s; goodput {:.1f} %\n", count(g.attempts, "attempt"),
                  count(g.failures, "failure"), g.wall_s, 100 * g.ratio());
  text += line("useful steps", g.useful_s, g.wall_s);
  text += line("steps done again after a failure", g.lost_s, g.wall_s);
  text += line("start, until the first step", g.start_s, g.wall_s);
  text += line("between steps: saves, evaluation, end", g.stall_s, g.wall_s);
  text += line("waiting for hangs to be seen", g.detect_s, g.wall_s);
  text += line("waiting before attempts", g.waited_s, g.wall_s);
  if (g.preflight_s > 0) text += line("  of it: preflight", g.preflight_s, g.wall_s);
  if (g.no_hosts_s > 0) {
    text += line("  of it: too few hosts", g.no_hosts_s, g.wall_s);
    text += fmt::format("goodput without that: {:.1f} %\n", 100 * g.ratio_with_hosts());
  }
  for (const auto& [cause, cost] : g.causes)
    text +=
        fmt::format("  {}: {}, {} done again, {:.1f} s lost\n", name(cause),
                    count(cost.failures, "failure"), count(cost.lost_steps, "step"), cost.lost_s);
  if (g.from_memory > 0)
    text +=
        fmt::format("  {} started from a snapshot in memory\n", count(g.from_memory, "attempt"));
  if (g.from_local > 0)
    text += fmt::format("  {} started from a snapshot on disks of the hosts\n",
                        count(g.from_local, "attempt"));
  for (const auto& [host, failures] : g.failures_of_host)
    text += fmt::format("  {}: blamed for {}\n", host, count(failures, "failure"));
  for (const std::string& note : g.notes) text += "  " + note + "\n";
  for (const auto& [layout, seconds] : g.layouts)
    text += fmt::format("  layout {}: {:.1f} s\n", layout, seconds);
  if (g.layouts.size() > 1)
    text += "  results of these layouts agree within the layout tolerance, not in bits\n";
  if (g.saves) text += to_text(*g.saves);
  if (g.chosen)
    text +=
        fmt::format("--save-interval auto: {} in attempt {}\n", to_text(*g.chosen), g.chosen_in);
  text += describe_hours(g);
  if (price.amount > 0) text += describe_cost(g, price);
  return text;
}

Json to_json(const Goodput& g, const Price& price) {
  Json::Object causes, hosts, layouts;
  for (const auto& [layout, seconds] : g.layouts) layouts.emplace_back(layout, seconds);
  for (const auto& [cause, cost] : g.causes)
    causes.emplace_back(name(cause), Json::Object{{"failures", cost.failures},
                                                  {"lost_steps", cost.lost_steps},
                                                  {"lost_s", cost.lost_s}});
  for (const auto& [host, failures] : g.failures_of_host) hosts.emplace_back(host, failures);
  Json::Object all{{"attempts", g.attempts},
                   {"failures", g.failures},
                   {"from_memory", g.from_memory},
                   {"from_local", g.from_local},
                   {"wall_s", g.wall_s},
                   {"goodput", g.ratio()},
                   {"useful_s", g.useful_s},
                   {"lost_s", g.lost_s},
                   {"start_s", g.start_s},
                   {"stall_s", g.stall_s},
                   {"detect_s", g.detect_s},
                   {"waited_s", g.waited_s},
                   {"preflight_s", g.preflight_s},
                   {"no_hosts_s", g.no_hosts_s},
                   {"goodput_with_hosts", g.ratio_with_hosts()},
                   {"gpu_hours", g.gpu.all},
                   {"spare_gpu_hours", g.gpu.spare},
                   {"lost_gpu_hours", g.gpu.lost},
                   {"node_hours", g.node.all},
                   {"spare_node_hours", g.node.spare},
                   {"lost_node_hours", g.node.lost},
                   {"gpus_assumed", g.gpus_assumed},
                   {"causes", std::move(causes)},
                   {"list", to_json(g.lines)},
                   {"hosts", std::move(hosts)},
                   {"layouts", std::move(layouts)}};
  all.emplace_back("saves", g.saves ? to_json(*g.saves) : Json());
  if (g.chosen)
    all.emplace_back(
        "save_interval_auto",
        Json::Object{{"attempt", g.chosen_in},
                     {"steps", g.chosen->steps > 0 ? Json(g.chosen->steps) : Json()},
                     {"seconds", g.chosen->steps > 0 ? Json() : Json(g.chosen->seconds)}});
  all.emplace_back("notes", Json::Array(g.notes.begin(), g.notes.end()));
  if (price.amount > 0) {
    all.emplace_back("cost", hours_for(g, price).all * price.amount);
    all.emplace_back("lost_cost", hours_for(g, price).lost * price.amount);
  }
  return all;
}

namespace {

std::string when(Index seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  return day_of(time) + " " + time_of_day(time);
}

std::string to_text(const AttemptLine& line) {
  std::string text = fmt::format("{}  attempt {:<4} {:<15}", when(line.at), line.attempt,
                                 line.cause            ? name(*line.cause)
                                 : line.reason.empty() ? "runs"
                                                       : "no end");
  if (line.cause && is_failure(*line.cause))
    text += fmt::format(" lost {} step{}, {:.1f} s", line.lost_steps,
                        line.lost_steps == 1 ? "" : "s", line.lost_s);
  if (!line.reason.empty()) text += "  " + line.reason;
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string to_text(const std::vector<AttemptLine>& lines, std::size_t most) {
  std::string text;
  const std::size_t shown = std::min(most, lines.size());
  std::set<Cause> causes;
  for (std::size_t i = 0; i < shown; ++i) {
    const AttemptLine& line = lines[lines.size() - 1 - i];
    text += to_text(line);
    if (line.cause) causes.insert(*line.cause);
  }
  if (shown < lines.size())
    text += fmt::format("{} earlier attempts: --json lists them\n", lines.size() - shown);
  for (const Cause cause : causes)
    if (const std::string remedy = remedy_for(cause); !remedy.empty())
      text += fmt::format("to do after {}: {}\n", name(cause), remedy);
  return text;
}

Json to_json(const std::vector<AttemptLine>& lines) {
  Json::Array all;
  for (const AttemptLine& line : lines)
    all.emplace_back(Json::Object{{"attempt", line.attempt},
                                  {"at", date_text(line.at)},
                                  {"cause", line.cause ? Json(name(*line.cause)) : Json()},
                                  {"reason", line.reason},
                                  {"lost_steps", line.lost_steps},
                                  {"lost_s", line.lost_s}});
  return all;
}

RecoveredSteps recovered_steps(const History& history, std::size_t attempt) {
  const AttemptEnded& ended = *history.attempts[attempt].ended;
  const Index began = std::max(history.attempts[attempt].began.resumed, ended.first_step - 1);
  const Index safe = std::max(ended.durable, began);
  Index next = -1, least = ended.last_step;
  for (std::size_t i = attempt + 1; i < history.attempts.size(); ++i) {
    const Index start = history.attempts[i].started.step;
    if (start < 0) continue;
    if (next < 0) next = start;
    least = std::min(least, start);
  }
  RecoveredSteps found;
  found.lost_steps = std::max<Index>(0, ended.last_step - (next < 0 ? safe : next));
  const Index open = ended.last_step - safe;
  // Steps of an attempt count as equally long.
  if (next >= 0 && open > 0)
    found.seconds = ended.lost_s * static_cast<double>(std::clamp<Index>(least - safe, 0, open)) /
                    static_cast<double>(open);
  return found;
}

}  // namespace trireme::supervisor
