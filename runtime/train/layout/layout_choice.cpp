#include "trireme/train/layout_choice.h"

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/kernels/device.h"

#include "kernels/cuda.h"
#include "runtime/core/show_bytes.h"
#include "runtime/cost/profile.h"
#include "runtime/job/device_choice.h"
#include "runtime/layouts/report/report.h"
#include "runtime/layouts/search/cluster.h"
#include "runtime/train/layout/kept_layout.h"

namespace trireme {
namespace {

using namespace cost;
using namespace layouts;

const std::string no_profile =
    "--plan auto on CPUs needs --plan-profile FILE, as `trireme plan --calibrate FILE --ranks N` "
    "writes it";

/// The name of the profile of this rank's GPU. Throws: Error where there is none.
std::string profile_of_gpu(const Options& options, const RankCounts& counts) {
  require(options.device != DeviceOption::cpu, no_profile);
  job::set_gpu_environment(options, 0, static_cast<int>(counts.ranks));
  std::string none;
  const std::string module = job::cuda_module();
  require(!find_gpus({0, module}, none).empty(), no_profile, "; no GPU is used: ", none);
  const std::unique_ptr<Device> gpu = open_cuda({0, module});
  try {
    return known_profile(gpu->traits(), gpu->free_bytes()).name;
  } catch (const Error& error) {
    throw Error(str("--plan auto: ", error.what(),
                    "; name one, or the file of a calibration, by --plan-profile"));
  }
}

/// On each node. Of jobs that have no ranks yet: `most`, or as many fewer as all nodes may have.
Index ranks_of_node(const RankCounts& counts, Index most) {
  if (counts.per_node > 0) return counts.per_node;
  while (counts.ranks % most != 0) --most;
  return most;
}

/// The links of a file of a cluster, and the nodes of this job. Throws: Error.
Cluster cluster_in(const std::string& file, const RankCounts& counts) {
  Cluster cluster = read_cluster(file);
  require(cluster.groups.size() == 1, file, " has ", cluster.groups.size(),
          " groups of nodes, and --plan auto plans for one");
  GpuGroup& group = cluster.groups.front();
  const Index per_node = ranks_of_node(counts, group.per_node);
  require(per_node <= group.per_node, file, " has nodes of \"per_node\" ", group.per_node,
          ", and here are ", per_node, " ranks on a node");
  group.nodes = static_cast<int>(counts.ranks / per_node);
  group.per_node = group.network.ranks_per_node = static_cast<int>(per_node);
  return cluster;
}

/// `profile`: the file of a cluster, or of a profile, or a name of one. Throws: Error.
Cluster read_cluster_of(const std::string& profile, const RankCounts& counts) {
  if (is_cluster_file(profile)) return cluster_in(profile, counts);
  const auto of = [&](Index per_node) {
    return read_cluster(str(counts.ranks / per_node, "x", per_node, "x", profile));
  };
  constexpr Index usual = 8;  // where it does not say how many were calibrated
  Index most = usual;
  if (counts.per_node == 0)
    if (const Index known = of(1).groups.front().profile.ranks_per_node; known > 0) most = known;
  return of(ranks_of_node(counts, most));
}

/// Throws: Error.
Cluster cluster_of(const std::string& profile, const Options& options, const RankCounts& counts) {
  Cluster cluster = read_cluster_of(profile, counts);
  if (Profile& known = cluster.groups.front().profile; known.is_cpu())
    known.device = cpu_traits({static_cast<int>(options.threads_per_rank)});  // the kernels here
  return cluster;
}

bool trains(const Options& options) { return !options.forward_only && options.train_iters > 0; }

/// Adds what is wrong to `problems`; the cluster is then empty.
Cluster find_cluster(const Options& options, const RankCounts& counts, const std::string& profile,
                     Problems& problems) {
  Cluster cluster;
  if (!trains(options)) {
    problems.add("--plan auto plans training, and this job trains nothing; leave it out");
  } else if (!options.freeze.empty()) {
    problems.add(layouts::no_plan_of_frozen_parts);
  } else if (counts.fewest_per_node != 0 && counts.fewest_per_node != counts.per_node) {
    problems.add("--plan auto plans for equal nodes, and the ", counts.ranks, " ranks here are ",
                 counts.fewest_per_node, " to ", counts.per_node,
                 " on a node; start as many on each, or give the layout in place of --plan auto");
  } else if (profile.empty()) {
    problems.collect(
        [&] { cluster = cluster_of(profile_of_gpu(options, counts), options, counts); });
  } else {
    try {
      cluster = cluster_of(profile, options, counts);
    } catch (const Error& error) {
      const std::string text = error.what();  // of a file it begins with its name
      problems.add("--plan-profile ", text.starts_with(profile) ? "" : profile + ": ", text);
    }
  }
  if (cluster.groups.empty()) return cluster;
  const bool cpu = cluster.groups.front().profile.is_cpu();
  if (options.device == (cpu ? DeviceOption::cuda : DeviceOption::cpu)) {
    problems.add("--plan-profile ", profile, " is of a ", cpu ? "CPU" : "GPU",
                 " and contradicts --device ", name(options.device));
    cluster.groups.clear();
  } else if (!cpu && options.ranks_per_gpu > 1) {
    problems.add("--plan auto plans a GPU for each rank, and --ranks-per-gpu ",
                 options.ranks_per_gpu, " shares it; leave one of them out");
    cluster.groups.clear();
  }
  return cluster;
}

KeyValues values_of(const CommandLine& command, const Layout& layout, const Profile& profile) {
  KeyValues values{{"--device", profile.is_cpu() ? "cpu" : "cuda"}};
  for_each_word([&](const char* word, auto value, auto /*pin*/) {
    if (const OptionDefinition* option = option_of(command, word))
      values.emplace_back(option->canonical_name(), option_value(layout.*value));
  });
  return values;
}

/// What the numbers of the profile may not hold for.
std::string doubts(const GpuGroup& group) {
  std::string text;
  const bool cpu = group.profile.is_cpu();
  for (const std::string& doubt : calibration_doubts(group, cpu ? name_of_this_cpu() : ""))
    text += "doubtful: " + doubt + '\n';
  return text;
}

/// Why the one layout that was sought is none for these ranks.
std::string why_not(const Answer& found) {
  const SearchResult& result = found.result;
  if (result.considered.empty())
    return result.illegal.empty() ? "it is no layout of these ranks"
                                  : result.illegal.front().problem;
  const Considered& layout = result.considered.front();
  if (!layout.problem.empty()) return layout.problem;
  const Index bytes = found.least_need ? found.least_need->bytes : layout.least_bytes;
  return str("a rank would need ", show_bytes(bytes), ", and ", show_bytes(result.limit),
             " may be used");
}

/// The layout of the checkpoint, where it can be kept; else `problem` says why not.
std::optional<Answer> find_kept(const TrainingTask& task, Question question,
                                const train::KeptLayout& kept, std::string& problem) {
  problem = kept.problem;
  if (!problem.empty()) return std::nullopt;
  std::vector<std::string> contradicted;
  question.aim.pins = task.pins_with(kept.pins, contradicted);
  if (!contradicted.empty()) {
    problem = fmt::format("another {} is given", fmt::join(contradicted, ", "));
    return std::nullopt;
  }
  Answer found = answer(task, question);
  if (found.fits()) return found;
  problem = why_not(found);
  return std::nullopt;
}

/// Says in the report what becomes of the layout of a checkpoint that the job resumes from.
std::optional<Answer> keep_layout(const TrainingTask& task, const Question& question,
                                  const CheckpointOptions& options, LayoutChoice& choice) {
  const auto kept = train::layout_of_checkpoint(options, question.cluster.gpus());
  if (!kept) return std::nullopt;
  std::string problem;
  std::optional<Answer> found = find_kept(task, question, *kept, problem);
  choice.report = "the layout of " + kept->origin +
                  (found ? " is kept, as there are as many ranks" : " is not kept: " + problem) +
                  '\n';
  return found;
}

}  // namespace

KeyValues choose_layout(const CommandLine& command, const Options& options, const GptOptions& gpt,
                        const RankCounts& counts, LayoutChoice& choice, Problems& problems) {
  if (!gpt.plans_layout) return {};
  Question question;
  question.advises = false;
  question.cluster = find_cluster(options, counts, gpt.plan_profile, problems);
  if (question.cluster.groups.empty()) return {};
  const TrainingTask task(command, options, gpt);
  std::optional<Answer> found = keep_layout(task, question, options.checkpoint, choice);
  if (!found) {
    std::vector<std::string> none;
    question.aim.pins = task.pins_with({}, none);
    found = answer(task, question);
  }
  if (!found->fits()) {
    std::string why = why_none_fits(task, question, *found);
    why.pop_back();  // the end of the line
    problems.add("--plan auto: ", why);
    return {};
  }
  const Evaluated& chosen = found->chosen();
  choice.predicted = {chosen.time.total, chosen.bytes};
  const GpuGroup& group = question.cluster.groups.front();
  choice.report += short_report(task, question, *found) + doubts(group);
  return values_of(command, chosen.layout, group.profile);
}

void describe_layout_choice(const Log& log, const LayoutChoice& choice) {
  std::istringstream lines(choice.report);
  for (std::string line; std::getline(lines, line);) log.info("plan: " + line);
}

}  // namespace trireme
