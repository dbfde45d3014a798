#include "runtime/layouts/unequal/unequal_answer.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "trireme/core/version.h"

#include "runtime/core/at.h"
#include "runtime/layouts/report/report.h"
#include "runtime/layouts/unequal/families.h"

namespace trireme::layouts {
namespace {

int gpus_of(const Cluster& cluster, const Choice& choice, int group) {
  if (choice.plan) return choice.plan->plan.gpus(group);
  return (choice.groups & (1U << static_cast<unsigned>(group))) != 0
             ? cluster.groups[at(group)].gpus()
             : 0;
}

/// The cluster that a group alone is.
Question question_of_group(const Question& question, unsigned groups) {
  Question one = question;
  one.cluster.groups.clear();
  for (std::size_t g = 0; g < question.cluster.groups.size(); ++g)
    if ((groups & (1U << g)) != 0) one.cluster.groups.push_back(question.cluster.groups[g]);
  return one;
}

template <class T>
Json array_of(const std::vector<T>& values) {
  Json::Array all;
  for (const T& value : values) all.emplace_back(value);
  return all;
}

Json to_json(const ExactPlan& exact, std::size_t k) {
  const PipelineKind& kind = exact.plan.kinds[k];
  const KindFacts& facts = exact.kinds[k];
  return Json::Object{{"count", kind.count},
                      {"groups", array_of(kind.types)},
                      {"blocks", array_of(kind.blocks)},
                      {"micro_batches", kind.share.each},
                      {"with_one_more", kind.share.more},
                      {"optimizer_share", exact.slice(k)},
                      {"busy_s", facts.busy()},
                      {"rest_s", facts.rest()},
                      {"device_bytes", array_of(facts.bytes)},
                      {"limit_bytes", array_of(facts.limits)}};
}

Json choice_to_json(const TrainingTask& task, const Question& question, const Choice& choice) {
  const Figures figures = figures_of(task, question, choice);
  Json::Array gpus;
  for (std::size_t g = 0; g < question.cluster.groups.size(); ++g)
    gpus.emplace_back(gpus_of(question.cluster, choice, static_cast<int>(g)));
  Json::Object all{
      {"gpus", std::move(gpus)},
      {"family", choice.plan ? name(choice.plan->plan.family) : "alone"},
      {"layout", to_json(choice.plan ? choice.plan->plan.layout : choice.alone->layout)},
      {"step_s", choice.seconds},
      {"tokens_per_s", figures.tokens_per_s},
      {"mfu", figures.mfu},
      {"launched", choice.not_launched.empty()}};
  if (!choice.not_launched.empty()) all.emplace_back("problem", choice.not_launched);
  if (question.tokens > 0) all.emplace_back("hours", figures.hours);
  if (figures.cost > 0) all.emplace_back("cost", figures.cost);
  if (figures.energy_kwh > 0) all.emplace_back("energy_kwh", figures.energy_kwh);
  if (choice.alone) all.emplace_back("device_bytes", choice.alone->bytes);
  if (!choice.plan) return all;
  Json::Array pipelines;
  for (std::size_t k = 0; k < choice.plan->kinds.size(); ++k)
    pipelines.push_back(to_json(*choice.plan, k));
  all.emplace_back("pipelines", std::move(pipelines));
  return all;
}

Json choices_to_json(const TrainingTask& task, const Question& question,
                     const std::vector<Choice>& choices) {
  Json::Array all;
  for (const Choice& choice : choices) all.push_back(choice_to_json(task, question, choice));
  return all;
}

Json hosts_to_json(const Cluster& cluster, const UnequalPlan& plan) {
  Json::Array all;
  for (const HostRun& run : host_runs(cluster, plan))
    all.emplace_back(Json::Object{{"group", run.group}, {"node", run.node}, {"ranks", run.ranks}});
  return all;
}

}  // namespace

std::string unequal_problem(const TrainingTask& task, const Question& question) {
  const std::size_t groups = question.cluster.groups.size();
  const auto most = static_cast<std::size_t>(most_groups);
  if (groups > most)
    return str("has ", groups, " groups of unequal nodes; at most ", most, " are planned together");
  for (const GpuGroup& group : question.cluster.groups)
    if (group.profile.is_cpu())
      return str("has unequal nodes, which are planned for GPUs only; leave out ", group.gpu,
                 ", a profile of a CPU");
  if (!question.explain.empty())
    return "has unequal nodes, which --explain does not know; --pin shows such plans alone";
  if (question.aim.pins.chunks.value_or(1) != 1)
    return "has unequal nodes, which are planned with one virtual stage a rank; leave out v";
  if (question.aim.pins.schedule.value_or(ScheduleKind::one_f_one_b) != ScheduleKind::one_f_one_b)
    return "has unequal nodes, which are planned with the schedule 1f1b; leave out schedule";
  const std::string option = task.given_with(OptionUse::shares);
  return option.empty() ? ""
                        : str("has unequal nodes, for which ", option,
                              " of --model-config is sought; leave it out there");
}

Figures figures_of(const TrainingTask& task, const Question& question, const Choice& choice) {
  constexpr double seconds_per_hour = 3600;
  Figures figures;
  figures.tokens_per_s = static_cast<double>(task.tokens_per_step()) / choice.seconds;
  double peak = 0, price = 0, watts = 0;
  bool priced = true, known = true;
  for (std::size_t g = 0; g < question.cluster.groups.size(); ++g) {
    const GpuGroup& group = question.cluster.groups[g];
    const int gpus = gpus_of(question.cluster, choice, static_cast<int>(g));
    peak += gpus * group.profile.peak(task.options().compute());
    price += gpus * group.price;
    watts += gpus * group.profile.watts;
    known = known && (gpus == 0 || group.profile.watts > 0);
    priced = priced && (gpus == 0 || group.price > 0);
  }
  figures.mfu = figures.tokens_per_s * task.model().flops_per_token() / peak;
  figures.hours = question.tokens / figures.tokens_per_s / seconds_per_hour;
  // Without a number of tokens: of a step.
  const double hours = question.tokens > 0 ? figures.hours : choice.seconds / seconds_per_hour;
  figures.cost = priced ? hours * price : 0;
  figures.energy_kwh = known ? figures.hours * watts / 1e3 : 0;
  return figures;
}

std::string describe(const Choice& choice) {
  return describe(choice.plan ? choice.plan->plan.layout : choice.alone->layout);
}

std::string describe_gpus(const Cluster& cluster, const Choice& choice) {
  std::vector<int> order;
  const bool in_turn = choice.plan && choice.plan->plan.family == Family::pipeline;
  if (in_turn)
    order = choice.plan->plan.kinds.front().types;
  else
    for (std::size_t g = 0; g < cluster.groups.size(); ++g) order.push_back(static_cast<int>(g));
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::string text;
  for (const int group : order)
    if (const int gpus = gpus_of(cluster, choice, group); gpus > 0)
      text += fmt::format("{}{} {}",
                          text.empty() ? ""
                          : in_turn    ? " > "
                                       : " + ",
                          gpus, cluster.groups[at(group)].gpu);
  return text;
}

std::vector<std::string> launch_words(const TrainingTask& task, const Question& question,
                                      const Choice& choice) {
  if (choice.alone)
    return launch_words(task, question_of_group(question, choice.groups), choice.alone->layout);
  const UnequalPlan& plan = choice.plan->plan;
  const bool by_rank = needs_line_per_rank(host_runs(question.cluster, plan));
  std::vector<std::string> words = {"mpirun",
                                    "-np",
                                    std::to_string(plan.layout.ranks()),
                                    "--hostfile",
                                    "hosts",
                                    "--map-by",
                                    by_rank ? "seq" : "slot",
                                    "train_gpt"};
  for (const auto& more : {question.words, task.words_of(plan.layout, choice.plan->parts)})
    words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json to_json(const TrainingTask& task, const Question& question, const UnequalResult& result) {
  Json::Object all{{"format", 1},
                   {"version", version()},
                   {"parameters", task.model().parameter_count()},
                   {"tokens_per_step", task.tokens_per_step()},
                   {"cluster", to_json(question.cluster)},
                   {"best", choices_to_json(task, question, result.best)},
                   {"choices", choices_to_json(task, question, result.subsets)},
                   {"considered", result.considered},
                   {"planned", result.planned},
                   {"refused", result.refused}};
  if (result.launched < 0) return all;
  const Choice& launched = result.best[at(result.launched)];
  all.emplace_back("launched", result.launched);
  if (result.equal_shares > 0) all.emplace_back("equal_shares_s", result.equal_shares);
  if (launched.plan)
    all.emplace_back("hosts", hosts_to_json(question.cluster, launched.plan->plan));
  if (why_not_run(question.cluster).empty())
    all.emplace_back("command", array_of(launch_words(task, question, launched)));
  return all;
}

namespace {

void add(std::vector<HostRun>& runs, const HostRun& more) {
  if (!runs.empty() && runs.back().group == more.group && runs.back().node == more.node)
    runs.back().ranks += more.ranks;
  else
    runs.push_back(more);
}

/// Whether both are of other nodes of one group, with equally many ranks.
bool alike(const HostRun& a, const HostRun& b) { return a.group == b.group && a.ranks == b.ranks; }

std::string describe_run(const Cluster& cluster, const HostRun& run) {
  return fmt::format("{} of node {} of {}", run.ranks, run.node + 1,
                     cluster.groups[at(run.group)].gpu);
}

}  // namespace

std::vector<HostRun> host_runs(const Cluster& cluster, const UnequalPlan& plan) {
  std::vector<HostRun> runs;
  std::vector<int> used(cluster.groups.size(), 0);
  for (int stage = 0; stage < plan.kinds.front().stages(); ++stage)
    for (const PipelineKind& kind : plan.kinds) {
      const int group = kind.types[at(stage)];
      const int per_node = cluster.groups[at(group)].per_node;
      for (int left = kind.count * plan.layout.tensor; left > 0;) {
        const int free = per_node - used[at(group)] % per_node, ranks = std::min(left, free);
        add(runs, {group, used[at(group)] / per_node, ranks});
        used[at(group)] += ranks;
        left -= ranks;
      }
    }
  return runs;
}

bool needs_line_per_rank(const std::vector<HostRun>& runs) {
  std::set<std::pair<int, int>> seen;
  return std::any_of(runs.begin(), runs.end(), [&](const HostRun& run) {
    return !seen.insert({run.group, run.node}).second;
  });
}

std::string describe_hosts(const Cluster& cluster, const std::vector<HostRun>& runs) {
  std::string text;
  if (needs_line_per_rank(runs)) {
    for (const HostRun& run : runs) text += (text.empty() ? "" : ", ") + describe_run(cluster, run);
    return "a line for each rank with the name of its node: " + text;
  }
  for (auto run = runs.begin(); run != runs.end();) {
    const auto end =
        std::find_if(run, runs.end(), [&](const HostRun& r) { return !alike(r, *run); });
    text += fmt::format("{}{} of {} with slots={}", text.empty() ? "" : ", then ", end - run,
                        cluster.groups[at(run->group)].gpu, run->ranks);
    run = end;
  }
  return "a line for each node: " + text;
}

}  // namespace trireme::layouts
