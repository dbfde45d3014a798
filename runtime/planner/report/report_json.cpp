#include "runtime/planner/report/report_json.h"

#include "trireme/core/version.h"

#include "runtime/planner/report/report.h"

namespace trireme::planner {
namespace {

Json to_json(const PlannedRank& rank) {
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
  for (const PlannedRank& rank : made.plan.ranks) ranks.push_back(to_json(rank));
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

}  // namespace trireme::planner
