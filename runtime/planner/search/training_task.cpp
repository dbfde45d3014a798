#include "runtime/planner/search/training_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/plan/training_spec.h"

#include "runtime/options/field_names.h"

namespace trireme::planner {

TrainingTask::TrainingTask(const std::vector<std::string>& words, Problems& problems, bool bf16,
                           const ModelOfFiles& model)
    : own_(std::make_unique<CommandLine>("train_gpt", "")), command_(*own_) {
  declare_options(*own_, options_);
  declare_gpt_options(*own_, options_, gpt_);
  std::vector<const char*> arguments{"train_gpt"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  own_->parse(static_cast<int>(arguments.size()), arguments.data(), problems);
  if (!model.options.empty()) own_->take(model.options, model.origin, problems, model.option);
  settle_gpt_options(command_, options_, gpt_);
  options_.forward_only = false;
  if (gpt_.skip_train)
    problems.add("--skip-train has no meaning for a plan of training; leave it out");
  if (!options_.freeze.empty()) problems.add(no_plan_of_frozen_parts);
  adds_bf16_ = bf16 && !command_.given("--bf16");
  if (adds_bf16_) options_.bf16 = true;
  derive_defaults(command_, options_);
  spec_ = training_spec(options_, MeshShape(1, 1, 1));
}

TrainingTask::TrainingTask(const CommandLine& command, const Options& options,
                           const GptOptions& gpt)
    : options_(options), gpt_(gpt), command_(command) {
  derive_defaults(command_, options_);
  spec_ = training_spec(options_, MeshShape(1, 1, 1));
}

LayoutPins TrainingTask::pins_with(const LayoutPins& more,
                                   std::vector<std::string>& contradicted) const {
  LayoutPins pins = more;
  const auto pin = [&](const char* option, auto& word, auto value) {
    if (!command_.given(option)) return;
    if (word && *word != value) contradicted.emplace_back(option);
    word = value;
  };
  const TransformerConfig& model = gpt_.model;
  pin("--tensor-model-parallel-size", pins.tensor, options_.tensor_size);
  pin("--pipeline-model-parallel-size", pins.pipeline, options_.pipeline_size);
  pin("--num-virtual-stages-per-pipeline-rank", pins.chunks, options_.chunks);
  pin("--micro-batch-size", pins.micro_batch, options_.micro_batch_size);
  pin("--use-distributed-optimizer", pins.sharded,
      Index{options_.use_distributed_optimizer ? 1 : 0});
  pin("--sequence-parallel", pins.sequence_parallel,
      Index{model.sequence_parallel == SequenceParallel::on ? 1 : 0});
  pin("--lm-head-chunks", pins.head_chunks, model.lm_head_chunks);
  pin("--schedule", pins.schedule, options_.schedule);
  pin("--recompute-granularity", pins.recompute, model.recompute);
  return pins;
}

Options TrainingTask::options_of(const Layout& layout, const UnequalParts& parts) const {
  Options options = options_;
  options.tensor_size = layout.tensor;
  options.pipeline_size = layout.pipeline;
  options.chunks = layout.chunks;
  options.schedule = layout.schedule;
  options.micro_batch_size = layout.micro_batch;
  options.use_distributed_optimizer = layout.sharded;
  if (!parts.shares.empty()) options.data_parallel_shares = parts.shares;
  if (!parts.optimizer.empty()) options.optimizer_shares = parts.optimizer;
  if (!parts.speeds.empty()) options.stage_speeds = parts.speeds;
  return options;
}

GptOptions TrainingTask::gpt_of(const Layout& layout) const {
  GptOptions gpt = gpt_;
  gpt.model.recompute = layout.recompute;
  gpt.model.sequence_parallel =
      layout.sequence_parallel ? SequenceParallel::on : SequenceParallel::off;
  gpt.model.lm_head_chunks = layout.head_chunks;
  return gpt;
}

std::vector<std::string> TrainingTask::problems_of(const Layout& layout,
                                                   const UnequalParts& parts) const {
  Problems problems;
  const Options options = options_of(layout, parts);
  GptOptions gpt = gpt_of(layout);
  check_options(command_, options, layout.ranks(), problems);
  check_gpt_options(command_, options, gpt, problems);
  std::vector<std::string> all;
  for (const std::string& problem : problems.all()) all.push_back(with_options(problem));
  return all;
}

Candidate TrainingTask::candidate(const Layout& layout, const UnequalParts& parts) const {
  Candidate candidate;
  TrainingSpec& spec = candidate.spec = spec_;
  spec.mesh = MeshShape(layout.data, layout.pipeline, layout.tensor);
  spec.chunks = layout.chunks;
  spec.schedule = layout.schedule;
  spec.micro_batch_size = layout.micro_batch;
  spec.update = layout.sharded ? Update::sharded : Update::replicated;
  if (!parts.shares.empty()) spec.data_parallel_shares = parts.shares;
  if (!parts.optimizer.empty()) spec.optimizer_shares = parts.optimizer;
  if (!parts.speeds.empty()) spec.stage_speeds = parts.speeds;
  candidate.recompute = layout.recompute;
  candidate.sequence_parallel =
      layout.sequence_parallel ? SequenceParallel::on : SequenceParallel::off;
  candidate.lm_head_chunks = layout.head_chunks;
  return candidate;
}

std::vector<std::string> TrainingTask::words_of(const Layout& layout,
                                                const UnequalParts& parts) const {
  const Layout usual;
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value, bool given) {
    if (!given) return;
    words.emplace_back(option);
    if (!value.empty()) words.push_back(value);
  };
  // Those of the file are left as they are there: pins() keeps them.
  const auto number = [&](const char* names, const char* option, Index value, Index standard) {
    add(names, std::to_string(value), value != standard && !command_.given(option));
  };
  add("--bf16", "", adds_bf16_);
  number("--tp", "--tensor-model-parallel-size", layout.tensor, usual.tensor);
  number("--pp", "--pipeline-model-parallel-size", layout.pipeline, usual.pipeline);
  number("--num-virtual-stages-per-pipeline-rank", "--num-virtual-stages-per-pipeline-rank",
         layout.chunks, usual.chunks);
  const bool follows = layout.schedule ==
                       (layout.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b);
  add("--schedule", name(layout.schedule), !follows && !command_.given("--schedule"));
  number("--micro-batch-size", "--micro-batch-size", layout.micro_batch, 0);
  add("--recompute-granularity", name(layout.recompute),
      layout.recompute != usual.recompute && !command_.given("--recompute-granularity"));
  add("--sequence-parallel", "",
      layout.sequence_parallel && !command_.given("--sequence-parallel"));
  add("--use-distributed-optimizer", "",
      layout.sharded && !command_.given("--use-distributed-optimizer"));
  number("--lm-head-chunks", "--lm-head-chunks", layout.head_chunks, usual.head_chunks);
  add("--data-parallel-shares", trireme::describe(parts.shares), !parts.shares.empty());
  add("--optimizer-shares", trireme::describe(parts.optimizer), !parts.optimizer.empty());
  add("--stage-speeds", fmt::format("{}", fmt::join(parts.speeds, ",")), !parts.speeds.empty());
  return words;
}

}  // namespace trireme::planner
