#include "runtime/planner/search/answer.h"

#include "trireme/core/error.h"

#include "runtime/optim/optimizer.h"

namespace trireme::planner {

Answer answer(const TrainingTask& task, const Question& question) {
  const GpuGroup& group = question.cluster.groups.front();
  Searcher searcher(task, group.profile.device);
  Answer all;
  all.result = searcher.search(group, question.aim);
  if (!question.explain.empty()) {
    all.explained = searcher.explain(group, question.explain, all.result.limit, all.not_explained);
  } else if (all.fits()) {
    if (!question.advises) return all;
    all.refusals = nearest_refusals(searcher, group, all.result);
    if (!group.profile.is_cpu())  // they are of GPUs
      all.levers = find_levers(searcher, group, question.aim, all.result);
  } else if (!all.result.considered.empty()) {
    all.least_need = find_least_need(searcher, group, all.result);
    all.fit = find_smallest_fit(searcher, group, question.aim);
  }
  return all;
}

Figures figures_of(const TrainingTask& task, const Question& question, const Evaluated& layout) {
  constexpr double seconds_per_hour = 3600;
  Figures figures;
  const auto tokens = static_cast<double>(task.tokens_per_step());
  figures.tokens_per_s = tokens / layout.time.total;
  double peak = 0;
  for (const GpuGroup& group : question.cluster.groups)
    peak += group.gpus() * group.profile.peak(task.options().compute());
  figures.mfu = figures.tokens_per_s * task.model().flops_per_token() / peak;
  figures.bubble = layout.time.bubble / layout.time.total;
  figures.hours = question.tokens / figures.tokens_per_s / seconds_per_hour;
  figures.cost = figures.hours * question.cluster.price();
  figures.energy_kwh = figures.hours * question.cluster.watts() / 1e3;
  return figures;
}

Index checkpoint_bytes(const TrainingTask& task) {
  const auto moments = static_cast<Index>(Optimizer::state_names(task.options().optimizer).size());
  return task.model().parameter_count() * (1 + moments) * size_bytes(DType::f32);
}

std::vector<std::string> launch_words(const TrainingTask& task, const Question& question,
                                      const Layout& layout) {
  const GpuGroup& group = question.cluster.groups.front();
  std::vector<std::string> words = {"mpirun", "-np", std::to_string(layout.ranks())};
  if (layout.ranks() > group.per_node) {
    words.emplace_back("--map-by");
    words.push_back(str("ppr:", group.per_node, ":node"));
  }
  words.emplace_back("train_gpt");
  for (const auto& more : {question.words, task.words_of(layout)})
    words.insert(words.end(), more.begin(), more.end());
  if (group.profile.is_cpu()) words.insert(words.end(), {"--device", "cpu"});
  if (group.profile.is_cpu() && group.profile.device.threads > 1)
    words.insert(words.end(), {"--threads-per-rank", str(group.profile.device.threads)});
  return words;
}

}  // namespace trireme::planner
