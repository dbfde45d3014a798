#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/data/source.h"
#include "trireme/models/transformer.h"
#include "trireme/train/trainer.h"

#include "launch/calibrate/measurements.h"
#include "runtime/core/json/json_record.h"
#include "runtime/cost/planned_layout.h"

namespace trireme::calibrate {
namespace {

constexpr Index steps = 4;

class CountingTokens final : public DataSource {
 public:
  explicit CountingTokens(const TransformerConfig& model) : model_(model) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    for (const Tensor& tokens : out)
      for (Index i = 0; tokens.data != nullptr && i < model_.seq_length; ++i)
        tokens.as<std::int32_t>()[i] = static_cast<std::int32_t>((sample + i) % model_.vocab_size);
    return model_.seq_length;
  }

 private:
  const TransformerConfig& model_;
};

Model model_of(const TransformerConfig& config, Index micro_batch) {
  Model model([config, micro_batch](Graph& graph) {
    return build_transformer_loss(graph, config, micro_batch);
  });
  model.identity = config.identity();
  return model;
}

/// Names of ops that do nothing but loop, and of what a step does besides ops.
std::set<std::string> loops_of(const TransformerConfig& config, Index micro_batch,
                               const DeviceTraits& device) {
  cost::LayoutPlanner planner(cost::transformer_models(config), device);
  cost::Candidate candidate;
  candidate.spec.micro_batch_size = candidate.spec.global_batch_size = micro_batch;
  const cost::PlannedLayout planned = planner.plan(candidate);
  std::set<std::string> loops = {"update", "zero_gradients"}, others;
  for (const Plan& chunk : planned.stages.front()->train.model().chunks)
    for (const StepWork& work : chunk.work()) {
      const WorkParts& parts = work.parts;
      const bool loop =
          parts.products.empty() && parts.attention.empty() && parts.collectives.empty();
      (loop ? loops : others).insert(work.op);
    }
  for (const std::string& other : others) loops.erase(other);
  return loops;
}

struct Sum {
  double bytes = 0, seconds = 0;
};
using Sums = std::map<std::pair<std::string, bool>, Sum>;

/// `op_s`: the planner counts it for each op, besides its bytes, where the host computes.
void add_rows(const std::string& file, const std::set<std::string>& loops, double op_s,
              Sums& sums) {
  std::ifstream in(file, std::ios::binary);
  require(in.good(), file, ": cannot be read");
  const Json profile = parse_json(std::string{std::istreambuf_iterator<char>(in), {}});
  JsonReader reader(profile, file);
  if (!reader.has("rows")) reader.fail("rows is missing; expected a list");
  reader.each("rows", [&](JsonReader& row) {
    const auto op = row.get<std::string>("op");
    const auto bytes = row.get<double>("bytes"), seconds = row.get<double>("ms") / 1e3;
    if (loops.count(op) == 0 || bytes == 0 || seconds == 0) return;
    Sum& sum = sums[{op, row.get<std::string>("phase") == "backward"}];
    sum.bytes += bytes;
    sum.seconds += std::max(seconds / 2, seconds - row.get<double>("calls") * op_s);
  });
}

/// Collective.
void profile_training(const Context& context, const TransformerConfig& config, Index micro_batch,
                      const std::string& file) {
  Options options = context.options();
  options.micro_batch_size = micro_batch;
  options.global_batch_size = micro_batch * context.mesh().shape().size();
  options.train_iters = options.learning_rate.decay_iters = steps;
  options.profile_ops = file;
  options.profile_step = steps;
  const Log log(context.host().rank(), LogLevel::quiet);
  Context training(options, context.mesh(), context.stream(), context.host(), log);
  const Model model = model_of(config, micro_batch);
  Trainer trainer(training, model);
  CountingTokens tokens(config);
  for (Index step = 0; step < steps; ++step) trainer.step(tokens);
}

}  // namespace

std::vector<TransformerConfig> usual_models(DeviceKind device) {
  const bool gpu = device == DeviceKind::cuda;
  TransformerConfig gpt = preset("tiny");
  gpt.num_layers = 2;
  gpt.hidden_size = gpu ? 2048 : 384;
  gpt.num_attention_heads = gpu ? 16 : 6;
  gpt.seq_length = gpu ? 2048 : 256;
  gpt.vocab_size = gpu ? 32'000 : 2048;
  TransformerConfig llama = preset("tiny-llama");
  llama.num_layers = gpt.num_layers;
  llama.hidden_size = gpt.hidden_size;
  llama.ffn_hidden_size = 0;
  llama.num_attention_heads = llama.num_query_groups = gpt.num_attention_heads;
  llama.seq_length = gpt.seq_length;
  llama.vocab_size = gpt.vocab_size;
  return {gpt, llama};
}

void measure_loops(const Context& context, const std::vector<TransformerConfig>& models,
                   Index micro_batch, const std::string& scratch, cost::Profile& profile) {
  Sums sums;
  for (const TransformerConfig& model : models) {
    profile_training(context, model, micro_batch, scratch);
    if (context.host().rank() != 0) continue;
    add_rows(scratch, loops_of(model, micro_batch, context.device().traits()),
             profile.queues ? 0 : profile.op_seconds, sums);
    std::filesystem::remove(scratch);
  }
  for (const auto& [key, sum] : sums)
    profile.loops.push_back({key.first, key.second, sum.bytes / sum.seconds});
}

}  // namespace trireme::calibrate
