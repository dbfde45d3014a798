#include "runtime/planner/search/preset_plans.h"

#include <algorithm>

#include "trireme/models/transformer_config.h"

#include "runtime/core/round_up.h"

namespace trireme::planner {
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

}  // namespace trireme::planner
