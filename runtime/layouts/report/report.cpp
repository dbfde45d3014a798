#include "runtime/layouts/report/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "trireme/core/version.h"

#include "runtime/core/show_bytes.h"
#include "runtime/cost/units.h"
#include "runtime/layouts/report/text.h"

namespace trireme::layouts {
namespace {

std::string table(const TrainingTask& task, const Question& question, const Answer& answer) {
  const bool total = question.tokens > 0, cost = total && question.cluster.price() > 0;
  std::vector<Table::Column> columns = {{"", false, 1}, {"layout", true}, {"step"},  {"tokens/s"},
                                        {"MFU"},        {"memory"},       {"bubble"}};
  if (total) columns.push_back({"total time"});
  if (cost) columns.push_back({"cost"});
  Table table(columns);
  for (std::size_t i = 0; i < answer.result.best.size(); ++i) {
    const Evaluated& each = answer.result.evaluated[answer.result.best[i]];
    const Figures figures = figures_of(task, question, each);
    table.add({fmt::format("{:>2} {}", i + 1, i == 0 ? '>' : ' '), describe(each.layout),
               show_seconds(each.time.total), in_thousands(figures.tokens_per_s),
               fmt::format("{:.0f} %", cost::percent * figures.mfu), show_bytes(each.bytes),
               fmt::format("{:.1f} %", cost::percent * figures.bubble), show_hours(figures.hours),
               show_cost(figures.cost)});
  }
  return table.text();
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
  Table table({{"", false, 1}, {"tried", true}, {"predicted"}, {"measured"}, {"off"}});
  for (const TriedLayout& each : answer.tried) {
    const bool chosen = each.layout == answer.chosen().layout, ran = each.problem.empty();
    table.add(
        {chosen ? "   >" : "    ", describe(each.layout), show_seconds(each.predicted_s),
         ran ? show_seconds(each.measured_s) : "",
         ran ? fmt::format("{:+.0f} %", cost::percent * (each.predicted_s / each.measured_s - 1))
             : ""});
    if (!ran) table.add_note(each.problem);
  }
  return table.text();
}

std::string bar(const cost::StepTime& time) {
  constexpr double per_mark = 0.05, least = 0.0005;
  std::string text;
  for (const auto& [part, seconds] : parts_of(time)) {
    const double share = seconds / time.total;
    if (share < least) continue;
    const auto marks = static_cast<std::size_t>(std::lround(share / per_mark));
    text +=
        fmt::format("{}{} {:.{}f} %{}{}", text.empty() ? "" : "   ", part, cost::percent * share,
                    share < 0.05 ? 1 : 0, marks > 0 ? " " : "", std::string(marks, '#'));
  }
  return text;
}

/// Of the rank with the largest share of its memory: a line for each class.
std::string memory_lines(const Question& question, const Evaluated& each,
                         const std::string& indent) {
  const cost::PlannedRank& rank = each.plan.tightest();
  const cost::Profile& profile = question.cluster.groups.front().profile;
  const Index planned = rank.need.device();
  Table table({{"", true, 12}, {"", true}, {""}});
  for (const auto& [name, bytes] : classes_of(rank.need)) {
    std::string label = name;
    if (label == "activations")
      label += fmt::format(" ({} slot{})", rank.slots, rank.slots == 1 ? "" : "s");
    table.add({indent, label, show_bytes(bytes)});
  }
  table.add({indent,
             profile.is_cpu() ? "data and libraries" : "context and communicators (estimate)",
             show_bytes(each.bytes - planned)});
  return fmt::format("{}memory      stage {}: {} of {}\n", indent, rank.stage,
                     show_bytes(each.bytes), show_bytes(profile.memory)) +
         table.text();
}

std::string checkpoint_line(const TrainingTask& task, const Evaluated& each) {
  Index most = 0;
  for (const cost::PlannedRank& rank : each.plan.ranks)
    most = std::max(most, rank.saved.value_or(0));
  return fmt::format("{} a save; a rank writes at most {}, from a copy in memory of its host",
                     show_bytes(checkpoint_bytes(task)), show_bytes(most));
}

/// What a layout that fits spends more on than the chosen one.
std::string what_takes_longer(const Evaluated& layout, const Evaluated& best) {
  std::map<std::string, double> chosen;
  for (const auto& [part, spent] : parts_of(best.time)) chosen[part] = spent;
  std::pair<std::string, double> most = {"", 0};
  for (const auto& [part, spent] : parts_of(layout.time))
    if (spent - chosen[part] > most.second) most = {part, spent - chosen[part]};
  if (most.first.empty()) return "";
  return fmt::format("{} takes {} more; ", most.first, show_seconds(most.second));
}

void add_refusal(const NearRefusal& refusal, const Answer& answer, Table& table) {
  const Evaluated& layout = refusal.layout;
  const double best = answer.chosen().time.total, seconds = layout.time.total;
  std::string why;
  if (refusal.verdict == Verdict::memory) {
    why = "does not fit: " + show_bytes(layout.bytes);
    if (refusal.leanest)
      why += fmt::format("; as {} still {}", describe(refusal.leanest->layout),
                         show_bytes(refusal.leanest->bytes));
  } else {
    why = what_takes_longer(layout, answer.chosen()) + "would need " + show_bytes(layout.bytes);
  }
  table.add({" ", describe(layout.layout),
             fmt::format("{}, {:.0f} % {}", show_seconds(seconds),
                         cost::percent * std::abs(seconds - best) / best,
                         seconds < best ? "faster" : "slower"),
             why});
}

std::string counts(const Answer& answer) {
  const SearchResult& result = answer.result;
  return wrapped(fmt::format("   {} layouts: {} cannot hold their state, {} more cannot hold their "
                             "activations, {} planned exactly, {} slower by their estimate",
                             result.considered.size(), result.count(Verdict::state),
                             result.count(Verdict::estimate), result.evaluated.size(),
                             result.count(Verdict::slower)),
                 6);
}

std::string nearest(const Answer& answer) {
  Table table({{""}, {"", true}, {""}, {"", true}});
  for (const NearRefusal& refusal : answer.refusals) add_refusal(refusal, answer, table);
  std::string text = "nearest refusals\n" + table.text();
  constexpr std::size_t most_illegal = 2;
  for (std::size_t i = 0; i < std::min(most_illegal, answer.result.illegal.size()); ++i) {
    const IllegalLayout& each = answer.result.illegal[i];
    text += wrapped(fmt::format("   tp {}  pp {}  dp {}: {}", each.layout.tensor,
                                each.layout.pipeline, each.layout.data, each.problem),
                    6);
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
  return text.empty() ? "" : wrapped("what would help most   " + text, 3);
}

std::string explain(const TrainingTask& task, const Question& question, const Answer& answer) {
  if (!answer.explained) return "no such layout: " + answer.not_explained + '\n';
  std::vector<const Evaluated*> both = {&*answer.explained};
  if (answer.fits()) both.push_back(&answer.chosen());
  std::string text;
  for (const Evaluated* each : both) {
    const Figures figures = figures_of(task, question, *each);
    const bool fits = each->bytes <= answer.result.limit;
    text += wrapped(
        (each == both.front() ? "" : "beside the chosen one: ") + describe(each->layout), 3);
    text += wrapped(fmt::format("   step {}, {} tokens/s, MFU {:.0f} %, {} of {}: {}",
                                show_seconds(each->time.total), in_thousands(figures.tokens_per_s),
                                cost::percent * figures.mfu, show_bytes(each->bytes),
                                show_bytes(answer.result.limit), fits ? "fits" : "does not fit"),
                    6);
    for (const auto& [part, seconds] : parts_of(each->time))
      text += fmt::format("   {:<16} {:>9}  {:>5.1f} %\n", part, show_seconds(seconds),
                          cost::percent * seconds / each->time.total);
    text += fmt::format("   recomputed       {:>9}, hidden traffic {}, critical stage {}\n",
                        show_seconds(each->time.recompute), show_seconds(each->time.hidden_traffic),
                        each->time.critical_stage);
    text += memory_lines(question, *each, "   ");
  }
  return text;
}

}  // namespace

std::string heading(const TrainingTask& task, const Question& question, bool tried) {
  const bool bf16 = task.options().bf16;
  return wrapped(
      fmt::format("{} parameters, sequence {}, {}, batch {} | {} | profile: {}",
                  show_count(static_cast<double>(task.model().parameter_count())),
                  task.model().seq_length, bf16 ? "bf16" : "f32", task.options().global_batch_size,
                  question.cluster.describe(), describe_grade(question.cluster, tried)),
      3);
}

std::string describe_grade(const Cluster& cluster, bool tried) {
  const std::vector<GpuGroup>& groups = cluster.groups;
  const cost::Profile& profile =
      std::max_element(groups.begin(), groups.end(), [](const GpuGroup& x, const GpuGroup& y) {
        return x.profile.spread < y.profile.spread;
      })->profile;
  const std::string error = fmt::format("times ± {:.0f} %", cost::percent * profile.spread);
  const std::string grade = name(tried ? cost::Grade::tried : profile.grade);
  std::string not_compared;
  for (const GpuGroup& group : groups)
    if (group.profile.grade == cost::Grade::data_sheet && group.profile.compared_runs == 0 &&
        not_compared.find(group.profile.name) == std::string::npos)
      not_compared += (not_compared.empty() ? "" : " or ") + group.profile.name;
  if (!not_compared.empty())
    return fmt::format(
        "{} (no published run of {} was compared: the error of its times is not known; on GPUs "
        "with such runs {}; no calibration)",
        grade, not_compared, error);
  if (profile.grade != cost::Grade::data_sheet) return fmt::format("{} ({})", grade, error);
  return fmt::format(
      "{} ({} by published runs of other programs on such GPUs, order mostly right; no "
      "calibration)",
      grade, error);
}

std::string notes(const TrainingTask& task, const Cluster& cluster, const Figures& figures) {
  const bool predicted =
      std::any_of(cluster.groups.begin(), cluster.groups.end(), [](const GpuGroup& group) {
        return !group.profile.is_cpu() && group.profile.grade == cost::Grade::data_sheet;
      });
  std::string text;
  if (figures.energy_kwh > 0)
    text +=
        fmt::format("energy      at most {} kWh: GPUs at the limit of their data sheets alone\n",
                    in_thousands(figures.energy_kwh));
  text += wrapped(
      fmt::format("MFU         of the peak in {}; a token counts 6 x parameters + 6 x layers x "
                  "width x sequence FLOPs: the causal half of attention, nothing twice",
                  task.options().bf16 ? "bf16" : "f32"),
      12);
  if (predicted)
    text += wrapped(
        "not proved  no GPU has run this program yet: times, costs and energy are predictions", 12);
  if (const std::string why = why_not_run(cluster); !why.empty())
    text += wrapped("cannot run  " + why + "; this plan is for comparison only", 12);
  return text;
}

std::string why_not_run(const Cluster& cluster) {
  for (const GpuGroup& group : cluster.groups)
    if (!group.profile.cannot_run.empty())
      return group.profile.name + ": " + group.profile.cannot_run;
  return "";
}

std::vector<std::pair<std::string, double>> parts_of(const cost::StepTime& time) {
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
      {"parameters", need.parameters - need.masters},
      {"fp32 masters", need.masters},
      {"gradients", need.gradients},
      {"optimizer", need.optimizer},
      {"activations", need.activations},
      {"constants", need.constants},
      {"checks", need.checks},
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

std::string comment_of_command(const TrainingTask& task, const Question& question) {
  std::string missing;
  for (const auto& [option, value] : {std::pair{"--data-path", "CORPUS"}, {"--save", "RUN"}})
    if (!task.given(option)) missing += fmt::format(" {} {}", option, value);
  const std::vector<std::string>& words = question.words;
  if (!task.given("--train-iters") &&
      std::find(words.begin(), words.end(), "--train-iters") == words.end())
    missing += " --train-iters N (or plan with --tokens)";
  return missing.empty() ? "" : "# to train, add" + missing + '\n';
}

std::string short_report(const TrainingTask& task, const Question& question, const Answer& answer) {
  return heading(task, question) + table(task, question, answer);
}

std::string report(const TrainingTask& task, const Question& question, const Answer& answer) {
  std::string text = heading(task, question, !answer.tried.empty()) + '\n';
  if (!question.explain.empty()) return text + explain(task, question, answer);
  if (!answer.fits()) {
    std::string why = why_none_fits(task, question, answer);
    why.pop_back();  // the end of its line
    return text + wrapped(why, 3);
  }
  const Evaluated& chosen = answer.chosen();
  text += table(task, question, answer) + within_error(question, answer) + trials(answer) + '\n';
  text += wrapped("time of 1   " + bar(chosen.time), 12);
  text += memory_lines(question, chosen, "");
  text += wrapped("checkpoint  " + checkpoint_line(task, chosen), 12);
  text += notes(task, question.cluster, figures_of(task, question, chosen));
  text += nearest(answer) + helps(answer);
  if (!why_not_run(question.cluster).empty()) return text;
  return text + '\n' + comment_of_command(task, question) +
         shell_command(launch_words(task, question, chosen.layout));
}

namespace {

Json to_json(const cost::PlannedRank& rank) {
  Json::Object classes;
  for (const auto& [name, bytes] : classes_of(rank.need)) classes.emplace_back(name, bytes);
  return Json::Object{{"rank", rank.rank},
                      {"stage", rank.stage},
                      {"device_bytes", rank.need.device()},
                      {"host_bytes", rank.need.host()},
                      {"saved_bytes", rank.saved ? Json(*rank.saved) : Json()},
                      {"classes", std::move(classes)}};
}

/// What an exact plan says.
void add_plan(const TrainingTask& task, const Question& question, const Evaluated& made,
              Json::Object& to) {
  Json::Object parts;
  for (const auto& [part, seconds] : parts_of(made.time)) parts.emplace_back(part, seconds);
  Json::Array ranks;
  for (const cost::PlannedRank& rank : made.plan.ranks) ranks.push_back(to_json(rank));
  const Figures figures = figures_of(task, question, made);
  to.emplace_back("step_s", made.time.total);
  to.emplace_back("parts_s", std::move(parts));
  to.emplace_back("recompute_s", made.time.recompute);
  to.emplace_back("hidden_traffic_s", made.time.hidden_traffic);
  to.emplace_back("tokens_per_s", figures.tokens_per_s);
  to.emplace_back("mfu", figures.mfu);
  if (question.tokens > 0) to.emplace_back("hours", figures.hours);
  if (figures.cost > 0) to.emplace_back("cost", figures.cost);
  if (figures.energy_kwh > 0) to.emplace_back("energy_kwh", figures.energy_kwh);
  to.emplace_back("device_bytes", made.bytes);
  to.emplace_back("ranks", std::move(ranks));
}

Json candidates_to_json(const TrainingTask& task, const Question& question,
                        const SearchResult& result) {
  Json::Array all;
  for (const Considered& each : result.considered) {
    Json::Object one{{"layout", to_json(each.layout)},
                     {"verdict", name(each.verdict)},
                     {"least_step_s", each.least_seconds},
                     {"least_bytes", each.least_bytes}};
    if (!each.problem.empty()) one.emplace_back("problem", each.problem);
    if (each.evaluated >= 0)
      add_plan(task, question, result.evaluated[static_cast<std::size_t>(each.evaluated)], one);
    all.emplace_back(std::move(one));
  }
  return all;
}

Json illegal_to_json(const SearchResult& result) {
  Json::Array all;
  for (const IllegalLayout& each : result.illegal)
    all.emplace_back(Json::Object{{"layout", to_json(each.layout)}, {"problem", each.problem}});
  return all;
}

Json tried_to_json(const Answer& answer) {
  Json::Array all;
  for (const TriedLayout& each : answer.tried) {
    Json::Object one{{"layout", to_json(each.layout)}, {"predicted_s", each.predicted_s}};
    if (each.problem.empty())
      one.emplace_back("measured_s", each.measured_s);
    else
      one.emplace_back("problem", each.problem);
    all.emplace_back(std::move(one));
  }
  return all;
}

}  // namespace

Json to_json(const TrainingTask& task, const Question& question, const Evaluated& made) {
  Json::Object all{{"layout", to_json(made.layout)}};
  add_plan(task, question, made, all);
  return all;
}

Json to_json(const Layout& layout) {
  return Json::Object{{"tp", layout.tensor},
                      {"pp", layout.pipeline},
                      {"v", layout.chunks},
                      {"dp", layout.data},
                      {"mb", layout.micro_batch},
                      {"schedule", name(layout.schedule)},
                      {"recompute", name(layout.recompute)},
                      {"zero", layout.sharded ? 1 : 0},
                      {"sp", layout.sequence_parallel ? 1 : 0},
                      {"chunks", layout.head_chunks}};
}

Json to_json(const Cluster& cluster) {
  Json::Array groups;
  for (const GpuGroup& group : cluster.groups)
    groups.emplace_back(Json::Object{{"gpu", group.gpu},
                                     {"watts", group.profile.watts},
                                     {"compared_runs", group.profile.compared_runs},
                                     {"cannot_run", group.profile.cannot_run},
                                     {"nodes", group.nodes},
                                     {"per_node", group.per_node},
                                     {"memory_bytes", group.profile.memory},
                                     {"price", group.price},
                                     {"profile", group.profile.name},
                                     {"grade", name(group.profile.grade)},
                                     {"spread", group.profile.spread}});
  return groups;
}

Json to_json(const TrainingTask& task, const Question& question, const Answer& answer) {
  Json::Array best;
  for (const std::size_t each : answer.result.best)
    best.push_back(to_json(task, question, answer.result.evaluated[each]));
  Json::Object all{{"format", 1},
                   {"version", version()},
                   {"parameters", task.model().parameter_count()},
                   {"tokens_per_step", task.tokens_per_step()},
                   {"flops_per_token", task.model().flops_per_token()},
                   {"checkpoint_bytes", checkpoint_bytes(task)},
                   {"cluster", to_json(question.cluster)},
                   {"limit_bytes", answer.result.limit},
                   {"best", std::move(best)},
                   {"candidates", candidates_to_json(task, question, answer.result)},
                   {"illegal", illegal_to_json(answer.result)}};
  if (!answer.tried.empty()) all.emplace_back("tried", tried_to_json(answer));
  if (answer.fits() && why_not_run(question.cluster).empty()) {
    Json::Array words;
    for (const std::string& word : launch_words(task, question, answer.chosen().layout))
      words.emplace_back(word);
    all.emplace_back("command", std::move(words));
  }
  Json::Array levers;
  for (const Lever& lever : answer.levers)
    levers.emplace_back(Json::Object{{"change", lever.change}, {"step_s", lever.seconds}});
  all.emplace_back("levers", std::move(levers));
  if (answer.least_need)
    all.emplace_back("least_need", to_json(task, question, *answer.least_need));
  if (answer.fit) {
    all.emplace_back("fits_on_gpus", answer.fit->gpus);
    all.emplace_back("fit", to_json(answer.fit->layout.layout));
  }
  if (answer.explained) all.emplace_back("explained", to_json(task, question, *answer.explained));
  return all;
}

}  // namespace trireme::layouts
