#include "runtime/layouts/search/training_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/rank_plan/training_spec.h"

namespace trireme::layouts {

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

const OptionDefinition* option_of(const CommandLine& command, const std::string& word) {
  for (const OptionDefinition* option : command.options())
    if (option->traits.layout == word) return option;
  return nullptr;
}

std::string TrainingTask::given_with(OptionUse any) const {
  for (const OptionDefinition* option : command_.options())
    if (option->has(any) && given(option->canonical_name())) return option->canonical_name();
  return "";
}

Layout TrainingTask::layout_of_options() const {
  Layout layout;
  layout.tensor = static_cast<int>(options_.tensor_size);
  layout.pipeline = static_cast<int>(options_.pipeline_size);
  layout.chunks = static_cast<int>(options_.chunks);
  layout.micro_batch = options_.micro_batch_size;
  layout.schedule = options_.schedule;
  layout.recompute = gpt_.model.recompute;
  layout.sharded = options_.use_distributed_optimizer;
  layout.sequence_parallel = gpt_.model.sequence_parallel == SequenceParallel::on;
  layout.head_chunks = gpt_.model.lm_head_chunks;
  return layout;
}

LayoutPins TrainingTask::pins_with(const LayoutPins& more,
                                   std::vector<std::string>& contradicted) const {
  LayoutPins pins = more;
  const Layout own = layout_of_options();
  for_each_word([&](const char* word, auto value, auto pin) {
    const OptionDefinition* option = option_of(command_, word);
    if (option == nullptr || !given(option->canonical_name())) return;
    if (pins.*pin && *(pins.*pin) != own.*value) contradicted.push_back(option->canonical_name());
    pins.*pin = own.*value;
  });
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
  return problems.all();
}

cost::Candidate TrainingTask::candidate(const Layout& layout, const UnequalParts& parts) const {
  cost::Candidate candidate;
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
  Layout usual;
  usual.micro_batch = 0;  // is always said
  usual.schedule = layout.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  std::vector<std::string> words;
  if (adds_bf16_) words.emplace_back("--bf16");
  // Those of the file are left as they are there: pins_with() keeps them.
  for_each_word([&](const char* word, auto value, auto /*pin*/) {
    const OptionDefinition* option = option_of(command_, word);
    if (option == nullptr || given(option->canonical_name()) || layout.*value == usual.*value)
      return;
    words.push_back(option->all_names().back());
    if (option->takes_value()) words.push_back(option_value(layout.*value));
  });
  const auto add = [&](const char* option, const std::string& value, bool is_given) {
    if (is_given) words.insert(words.end(), {option, value});
  };
  add("--data-parallel-shares", trireme::describe(parts.shares), !parts.shares.empty());
  add("--optimizer-shares", trireme::describe(parts.optimizer), !parts.optimizer.empty());
  add("--stage-speeds", fmt::format("{}", fmt::join(parts.speeds, ",")), !parts.speeds.empty());
  return words;
}

}  // namespace trireme::layouts
