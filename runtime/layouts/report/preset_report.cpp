#include "runtime/layouts/report/preset_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/core/version.h"
#include "trireme/models/transformer_config.h"

#include "runtime/core/round_up.h"
#include "runtime/core/show_bytes.h"
#include "runtime/cost/units.h"
#include "runtime/layouts/report/report.h"
#include "runtime/layouts/report/text.h"

namespace trireme::layouts {
namespace {

double parameters_of(const PresetPlan& plan) {
  return static_cast<double>(plan.task->model().parameter_count());
}

std::string table(const Question& common, const std::vector<PresetPlan>& plans) {
  const bool priced = common.cluster.price() > 0;
  std::vector<Table::Column> columns = {{"model", true}, {"size"}, {"sequence"}, {"batch"},
                                        {"tokens"},      {"MFU"},  {"memory"},   {"time"}};
  if (priced) columns.push_back({"cost"});
  columns.push_back({"layout", true});
  Table table(columns);
  for (const PresetPlan& plan : plans) {
    if (!plan.fits()) continue;
    const Figures figures = figures_of(*plan.task, plan.question, *plan.best);
    std::vector<std::string> cells = {plan.name,
                                      show_count(parameters_of(plan)),
                                      std::to_string(plan.task->model().seq_length),
                                      std::to_string(plan.task->options().global_batch_size),
                                      show_count(plan.question.tokens),
                                      fmt::format("{:.0f} %", cost::percent * figures.mfu),
                                      show_bytes(plan.best->bytes),
                                      show_hours(figures.hours)};
    if (priced) cells.push_back(show_cost(figures.cost));
    cells.push_back(describe(plan.best->layout));
    table.add(std::move(cells));
  }
  return table.text();
}

std::string do_not_fit(const std::vector<PresetPlan>& plans) {
  std::string text;
  for (const PresetPlan& plan : plans) {
    if (plan.fits()) continue;
    text += (text.empty() ? "do not fit  " : ", ") + plan.name;
    if (plan.least_need)
      text += fmt::format(" (needs {} of each)", show_bytes(plan.least_need->bytes));
  }
  return text.empty() ? "" : wrapped(text, 12);
}

}  // namespace

std::string report(const Question& common, const std::vector<PresetPlan>& plans) {
  const bool given = common.tokens > 0;
  std::string text =
      wrapped(fmt::format("{} | profile: {}", common.cluster.describe(),
                          describe_grade(common.cluster)),
              3) +
      wrapped(fmt::format(
                  "presets, trained on {} tokens{}",
                  given ? show_count(common.tokens) : std::to_string(usual_tokens_per_parameter),
                  given ? "" : " a parameter (Hoffmann et al. 2022; --tokens for others)"),
              3) +
      '\n' + table(common, plans) + '\n' + do_not_fit(plans);
  if (!plans.empty()) text += notes(*plans.front().task, common.cluster, {});
  return text + wrapped(
                    "for one of them, its other layouts and the command line: trireme plan "
                    "--model PRESET --cluster … --global-batch-size N",
                    3);
}

Json to_json(const Question& common, const std::vector<PresetPlan>& plans) {
  Json::Array presets;
  for (const PresetPlan& plan : plans) {
    Json::Object one{{"model", plan.name},
                     {"parameters", plan.task->model().parameter_count()},
                     {"seq_length", plan.task->model().seq_length},
                     {"global_batch_size", plan.task->options().global_batch_size},
                     {"tokens", plan.question.tokens},
                     {"fits", plan.fits()}};
    if (plan.best)
      one.emplace_back("best", to_json(*plan.task, plan.question, *plan.best));
    else if (plan.least_need)
      one.emplace_back("least_bytes", plan.least_need->bytes);
    presets.emplace_back(std::move(one));
  }
  return Json::Object{{"format", 1},
                      {"version", version()},
                      {"cluster", to_json(common.cluster)},
                      {"presets", std::move(presets)}};
}

namespace {

/// As many samples for each GPU, of about usual_tokens_per_step in all.
Index usual_batch(Index length, Index gpus) {
  return round_up(std::max<Index>(usual_tokens_per_step / length, 1), gpus);
}

std::vector<std::string> words_of(const std::string& name, const TransformerConfig& model,
                                  Index gpus, Index batch, Index length) {
  std::vector<std::string> words = {"--model", name};
  if (length > 0) words.insert(words.end(), {"--seq-length", std::to_string(length)});
  const Index samples =
      batch > 0 ? batch : usual_batch(length > 0 ? length : model.seq_length, gpus);
  words.insert(words.end(), {"--global-batch-size", std::to_string(samples)});
  return words;
}

void search(PresetPlan& plan) {
  const GpuGroup& group = plan.question.cluster.groups.front();
  SearchAim one = plan.question.aim;
  one.best = 1;
  Searcher searcher(*plan.task, group.profile.device);
  SearchResult found = searcher.search(group, one);
  if (!found.best.empty())
    plan.best = std::move(found.evaluated[found.best.front()]);
  else if (!found.considered.empty())
    plan.least_need = find_least_need(searcher, group, found);
}

}  // namespace

std::vector<PresetPlan> plan_presets(const Question& common, Index batch, Index length) {
  const GpuGroup& group = common.cluster.groups.front();
  std::vector<PresetPlan> all;
  for (const std::string& name : preset_names()) {
    PresetPlan plan{name, nullptr, common, std::nullopt, std::nullopt};
    plan.question.words = words_of(name, preset(name), group.gpus(), batch, length);
    Problems problems;
    plan.task =
        std::make_unique<TrainingTask>(plan.question.words, problems, !group.profile.is_cpu());
    if (!problems.empty()) continue;
    if (plan.question.tokens == 0)
      plan.question.tokens =
          static_cast<double>(usual_tokens_per_parameter * plan.task->model().parameter_count());
    search(plan);
    all.push_back(std::move(plan));
  }
  return all;
}

}  // namespace trireme::layouts
