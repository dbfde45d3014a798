#include "runtime/planner/report/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "runtime/core/show_bytes.h"
#include "runtime/planner/report/figures_text.h"
#include "runtime/planner/units.h"

namespace trireme::planner {
namespace {

/// Of the column of layouts.
std::size_t layout_width(const Answer& answer) {
  std::size_t width = 46;
  const auto take = [&](const Evaluated& each) {
    width = std::max(width, describe(each.layout).size());
  };
  for (const std::size_t best : answer.result.best) take(answer.result.evaluated[best]);
  for (const NearRefusal& refusal : answer.refusals) take(refusal.layout);
  return width;
}

std::string table(const TrainingTask& task, const Question& question, const Answer& answer) {
  const bool total = question.tokens > 0, cost = total && question.cluster.price() > 0;
  const std::size_t width = layout_width(answer);
  std::string text = fmt::format("     {:<{}}  {:>8}  {:>10}  {:>5}  {:>10}  {:>6}", "layout",
                                 width, "step", "tokens/s", "MFU", "memory", "bubble");
  if (total) text += fmt::format("  {:>10}", "total time");
  if (cost) text += fmt::format("  {:>10}", "cost");
  text += '\n';
  for (std::size_t i = 0; i < answer.result.best.size(); ++i) {
    const Evaluated& each = answer.result.evaluated[answer.result.best[i]];
    const Figures figures = figures_of(task, question, each);
    text += fmt::format("{:>2} {} {:<{}}  {:>8}  {:>10}  {:>3.0f} %  {:>10}  {:>4.1f} %", i + 1,
                        i == 0 ? '>' : ' ', describe(each.layout), width,
                        show_seconds(each.time.total), in_thousands(figures.tokens_per_s),
                        percent * figures.mfu, show_bytes(each.bytes), percent * figures.bubble);
    if (total) text += fmt::format("  {:>10}", show_hours(figures.hours));
    if (cost) text += fmt::format("  {:>10}", in_thousands(figures.cost));
    text += '\n';
  }
  return text;
}

/// "1 to 3 are within the error ...", or "".
std::string within_error(const Question& question, const Answer& answer) {
  const double spread = question.cluster.groups.front().profile.spread;
  std::size_t near = 0;
  for (const std::size_t each : answer.result.best)
    if (answer.result.evaluated[each].time.total <= (1 + spread) * answer.chosen().time.total)
      ++near;
  if (near < 2 || !answer.tried.empty()) return "";
  return fmt::format("     1 to {0} are within the error: --try {0} runs each for five steps\n",
                     near);
}

/// "" where none was tried.
std::string trials(const Answer& answer) {
  if (answer.tried.empty()) return "";
  const std::size_t width = layout_width(answer);
  std::string text =
      fmt::format("tried{:<{}}  {:>9}  {:>9}  {:>7}\n", "", width, "predicted", "measured", "off");
  for (const TriedLayout& each : answer.tried) {
    const bool chosen = each.layout == answer.chosen().layout;
    text += fmt::format("   {} {:<{}}  {:>9}", chosen ? '>' : ' ', describe(each.layout), width,
                        show_seconds(each.predicted_s));
    text += each.problem.empty()
                ? fmt::format("  {:>9}  {:>+5.0f} %\n", show_seconds(each.measured_s),
                              percent * (each.predicted_s / each.measured_s - 1))
                : "  " + each.problem + '\n';
  }
  return text;
}

std::string bar(const StepTime& time) {
  constexpr double per_mark = 0.05, least = 0.0005;
  std::string text;
  for (const auto& [part, seconds] : parts_of(time)) {
    const double share = seconds / time.total;
    if (share < least) continue;
    const auto marks = static_cast<std::size_t>(std::lround(share / per_mark));
    text += fmt::format("{}{} {:.{}f} %{}{}", text.empty() ? "" : "   ", part, percent * share,
                        share < 0.05 ? 1 : 0, marks > 0 ? " " : "", std::string(marks, '#'));
  }
  return text;
}

std::string memory_line(const Question& question, const Evaluated& each) {
  const PlannedRank& rank = each.plan.tightest();
  const Profile& profile = question.cluster.groups.front().profile;
  std::string text = fmt::format("stage {}: ", rank.stage);
  for (const auto& [name, bytes] : classes_of(rank.need)) {
    text += fmt::format("{} {}", name, show_bytes(bytes));
    if (name == "activations")
      text += fmt::format(" ({} slot{})", rank.slots, rank.slots == 1 ? "" : "s");
    text += "  ";
  }
  const Index planned = rank.need.device();
  return text + fmt::format("= {}, + {} {} of {}", show_bytes(planned),
                            profile.is_cpu() ? "data and libraries"
                                             : "context and communicators (estimate)",
                            show_bytes(each.bytes - planned), show_bytes(profile.memory));
}

std::string checkpoint_line(const TrainingTask& task, const Evaluated& each) {
  Index most = 0;
  for (const PlannedRank& rank : each.plan.ranks) most = std::max(most, rank.saved.value_or(0));
  return fmt::format("{} a save; a rank writes at most {}, from a copy in memory of its host",
                     show_bytes(checkpoint_bytes(task)), show_bytes(most));
}

std::string describe_refusal(const NearRefusal& refusal, const Answer& answer) {
  const double best = answer.chosen().time.total, seconds = refusal.layout.time.total;
  const double difference = percent * std::abs(seconds - best) / best;
  std::string text = fmt::format(
      "   {:<{}}  {:>8}, {:.0f} % {}   ", describe(refusal.layout.layout), layout_width(answer),
      show_seconds(seconds), difference, seconds < best ? "faster" : "slower");
  if (refusal.verdict == Verdict::memory) {
    text += "does not fit: " + show_bytes(refusal.layout.bytes);
    if (refusal.leanest)
      text += fmt::format("; as {} still {}", describe(refusal.leanest->layout),
                          show_bytes(refusal.leanest->bytes));
    return text + '\n';
  }
  // What it spends more on than the chosen one.
  std::map<std::string, double> chosen;
  for (const auto& [part, spent] : parts_of(answer.chosen().time)) chosen[part] = spent;
  std::pair<std::string, double> most = {"", 0};
  for (const auto& [part, spent] : parts_of(refusal.layout.time))
    if (spent - chosen[part] > most.second) most = {part, spent - chosen[part]};
  if (!most.first.empty())
    text += fmt::format("{} takes {} more; ", most.first, show_seconds(most.second));
  return text + "would need " + show_bytes(refusal.layout.bytes) + '\n';
}

std::string counts(const Answer& answer) {
  const SearchResult& result = answer.result;
  return fmt::format(
      "   {} layouts: {} cannot hold their state, {} more cannot hold their activations, {} "
      "planned exactly, {} slower by their estimate\n",
      result.considered.size(), result.count(Verdict::state), result.count(Verdict::estimate),
      result.evaluated.size(), result.count(Verdict::slower));
}

std::string nearest(const Answer& answer) {
  std::string text = "nearest refusals\n";
  for (const NearRefusal& refusal : answer.refusals) text += describe_refusal(refusal, answer);
  constexpr std::size_t most_illegal = 2;
  for (std::size_t i = 0; i < std::min(most_illegal, answer.result.illegal.size()); ++i) {
    const IllegalLayout& each = answer.result.illegal[i];
    text += fmt::format("   tp {}  pp {}  dp {}: {}\n", each.layout.tensor, each.layout.pipeline,
                        each.layout.data, each.problem);
  }
  return text + counts(answer);
}

std::string helps(const Answer& answer) {
  constexpr double worth = 0.005;
  const double best = answer.chosen().time.total;
  std::string text;
  for (const Lever& lever : answer.levers) {
    text += fmt::format("{}{}: ", text.empty() ? "" : "   ", lever.change);
    if (best - lever.seconds < worth * best)
      text += "nothing";
    else
      text += fmt::format("{}, {}", show_seconds(lever.seconds),
                          lever.layout ? describe(*lever.layout) : "");
  }
  return text.empty() ? "" : "what would help most   " + text + "\n";
}

std::string explain(const TrainingTask& task, const Question& question, const Answer& answer) {
  if (!answer.explained) return "no such layout: " + answer.not_explained + '\n';
  std::vector<const Evaluated*> both = {&*answer.explained};
  if (answer.fits()) both.push_back(&answer.chosen());
  std::string text;
  for (const Evaluated* each : both) {
    const Figures figures = figures_of(task, question, *each);
    const bool fits = each->bytes <= answer.result.limit;
    text += fmt::format(
        "{}{}\n", each == both.front() ? "" : "beside the chosen one: ", describe(each->layout));
    text += fmt::format("   step {}, {} tokens/s, MFU {:.0f} %, {} of {}: {}\n",
                        show_seconds(each->time.total), in_thousands(figures.tokens_per_s),
                        percent * figures.mfu, show_bytes(each->bytes),
                        show_bytes(answer.result.limit), fits ? "fits" : "does not fit");
    for (const auto& [part, seconds] : parts_of(each->time))
      text += fmt::format("   {:<16} {:>9}  {:>5.1f} %\n", part, show_seconds(seconds),
                          percent * seconds / each->time.total);
    text += fmt::format("   recomputed       {:>9}, hidden traffic {}, critical stage {}\n",
                        show_seconds(each->time.recompute), show_seconds(each->time.hidden_traffic),
                        each->time.critical_stage);
    text += "   " + memory_line(question, *each) + '\n';
  }
  return text;
}

}  // namespace

std::string heading(const TrainingTask& task, const Question& question, bool tried) {
  const std::vector<GpuGroup>& groups = question.cluster.groups;
  const Profile& profile =
      std::max_element(groups.begin(), groups.end(), [](const GpuGroup& x, const GpuGroup& y) {
        return x.profile.spread < y.profile.spread;
      })->profile;
  const bool bf16 = task.options().bf16;
  return fmt::format(
      "{} parameters, sequence {}, {}, batch {} | {} | profile: {} (times ± {:.0f} %{})\n",
      show_count(static_cast<double>(task.model().parameter_count())), task.model().seq_length,
      bf16 ? "bf16" : "f32", task.options().global_batch_size, question.cluster.describe(),
      name(tried ? Grade::tried : profile.grade), percent * profile.spread,
      profile.grade == Grade::data_sheet ? ", order mostly right; no calibration" : "");
}

std::vector<std::pair<std::string, double>> parts_of(const StepTime& time) {
  std::vector<std::pair<std::string, double>> parts = {{"products", time.products},
                                                       {"attention", time.attention},
                                                       {"memory-bound", time.memory_bound},
                                                       {"tensor traffic", time.tensor_traffic},
                                                       {"host", time.host},
                                                       {"exchange", time.exchange},
                                                       {"data traffic", time.data_traffic},
                                                       {"contention", time.contention},
                                                       {"optimizer", time.optimizer},
                                                       {"bubble", time.bubble}};
  std::erase_if(parts, [](const auto& part) { return part.second <= 0; });
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return parts;
}

std::vector<std::pair<std::string, Index>> classes_of(const MemoryNeed& need) {
  std::vector<std::pair<std::string, Index>> classes = {
      {"parameters", need.parameters}, {"gradients", need.gradients},
      {"optimizer", need.optimizer},   {"activations", need.activations},
      {"constants", need.constants},   {"checks", need.checks},
      {"products", need.products}};
  std::erase_if(classes, [](const auto& each) { return each.second <= 0; });
  return classes;
}

std::string why_none_fits(const TrainingTask& task, const Question& question,
                          const Answer& answer) {
  const Cluster& cluster = question.cluster;
  const char* unit = cluster.groups.front().unit();
  if (answer.result.considered.empty()) {
    const std::string why = answer.result.illegal.empty() ? "no layout matches what is pinned"
                                                          : answer.result.illegal.front().problem;
    return fmt::format("no layout of {} parameters on {} is legal: {}\n",
                       show_count(static_cast<double>(task.model().parameter_count())),
                       cluster.describe(), why);
  }
  std::string text = fmt::format("none of {} layouts fits {} ({} of each may be used)",
                                 answer.result.considered.size(), cluster.describe(),
                                 show_bytes(answer.result.limit));
  if (answer.least_need)
    text += fmt::format(": least {} a {} ({})", show_bytes(answer.least_need->bytes), unit,
                        describe(answer.least_need->layout));
  if (answer.fit)
    text += fmt::format(". It fits on {} {}s: {}, {}", answer.fit->gpus, unit,
                        describe(answer.fit->layout.layout), show_bytes(answer.fit->layout.bytes));
  return text + '\n';
}

std::string short_report(const TrainingTask& task, const Question& question, const Answer& answer) {
  return heading(task, question) + table(task, question, answer);
}

std::string report(const TrainingTask& task, const Question& question, const Answer& answer) {
  std::string text = heading(task, question, !answer.tried.empty()) + '\n';
  if (!question.explain.empty()) return text + explain(task, question, answer);
  if (!answer.fits()) return text + why_none_fits(task, question, answer);
  const Evaluated& chosen = answer.chosen();
  text += table(task, question, answer) + within_error(question, answer) + trials(answer) + '\n';
  text += "time of 1   " + bar(chosen.time) + '\n';
  text += "memory      " + memory_line(question, chosen) + '\n';
  text += "checkpoint  " + checkpoint_line(task, chosen) + '\n';
  text += nearest(answer) + helps(answer) + '\n';
  return text + shell_command(launch_words(task, question, chosen.layout));
}

}  // namespace trireme::planner
