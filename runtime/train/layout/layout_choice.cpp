#include "trireme/train/layout_choice.h"

#include <sstream>

#include "trireme/kernels/device.h"

#include "kernels/cuda.h"
#include "runtime/job/device_choice.h"
#include "runtime/job/gpu_environment.h"
#include "runtime/planner/profile_json.h"
#include "runtime/planner/report/report.h"
#include "runtime/planner/search/calibration.h"
#include "runtime/train/layout/kept_layout.h"

namespace trireme {
namespace {

using namespace planner;

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

/// Of jobs that have no ranks yet: as many on a node as were calibrated, or as most nodes have.
Index usual_ranks_of_node(const Profile& profile, Index ranks) {
  constexpr Index usual = 8;
  Index most = profile.ranks_per_node > 0 ? profile.ranks_per_node : usual;
  while (ranks % most != 0) --most;
  return most;
}

/// Throws: Error.
Cluster cluster_of(const std::string& profile, const Options& options, const RankCounts& counts) {
  const auto of = [&](Index per_node) {
    return read_cluster(str(counts.ranks / per_node, "x", per_node, "x", profile));
  };
  Index per_node = counts.per_node;
  if (per_node == 0) per_node = usual_ranks_of_node(of(1).groups.front().profile, counts.ranks);
  Cluster cluster = of(per_node);
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
    problems.add(planner::no_plan_of_frozen_parts);
  } else if (counts.per_node > 0 && counts.ranks % counts.per_node != 0) {
    problems.add("--plan auto plans for equal nodes: ", counts.ranks, " ranks, of which ",
                 counts.per_node, " are on the node of rank 0");
  } else if (profile.empty()) {
    problems.collect(
        [&] { cluster = cluster_of(profile_of_gpu(options, counts), options, counts); });
  } else {
    try {
      cluster = cluster_of(profile, options, counts);
    } catch (const Error& error) {
      problems.add("--plan-profile ", profile, ": ", error.what());
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

KeyValues values_of(const Layout& layout, const Profile& profile) {
  const auto flag = [](bool on) { return std::string(on ? "true" : "false"); };
  return {{"--tensor-model-parallel-size", str(layout.tensor)},
          {"--pipeline-model-parallel-size", str(layout.pipeline)},
          {"--num-virtual-stages-per-pipeline-rank", str(layout.chunks)},
          {"--schedule", name(layout.schedule)},
          {"--micro-batch-size", str(layout.micro_batch)},
          {"--recompute-granularity", name(layout.recompute)},
          {"--sequence-parallel", flag(layout.sequence_parallel)},
          {"--use-distributed-optimizer", flag(layout.sharded)},
          {"--lm-head-chunks", str(layout.head_chunks)},
          {"--device", profile.is_cpu() ? "cpu" : "cuda"}};
}

/// What the numbers of the profile may not hold for.
std::string doubts(const GpuGroup& group) {
  std::string text;
  const bool cpu = group.profile.is_cpu();
  for (const std::string& doubt : calibration_doubts(group, cpu ? name_of_this_cpu() : ""))
    text += "doubtful: " + doubt + '\n';
  return text;
}

/// The layout of the checkpoint, where it can be kept.
std::optional<Answer> keep_layout(const TrainingTask& task, Question question,
                                  const CheckpointOptions& options, LayoutChoice& choice) {
  const auto kept = train::layout_of_checkpoint(options, question.cluster.gpus());
  Problems contradictions;
  if (kept) question.aim.pins = task.pins_with(kept->pins, contradictions);
  if (!kept || !contradictions.empty()) return std::nullopt;
  Answer found = answer(task, question);
  if (!found.fits()) return std::nullopt;
  choice.report = "the layout of " + kept->origin + " is kept, as there are as many ranks\n";
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
    question.aim.pins = task.pins_with({}, problems);
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
  return values_of(chosen.layout, group.profile);
}

void describe_layout_choice(const Log& log, const LayoutChoice& choice) {
  std::istringstream lines(choice.report);
  for (std::string line; std::getline(lines, line);) log.info("plan: " + line);
}

}  // namespace trireme
