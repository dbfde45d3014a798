// simulated_scaling: steps of the runtime on up to 1,024 simulated GPUs (tests/virtual_clock): how
// each axis scales, what pipelines idle, and what of the sums of gradients backward hides. All
// times are computed from a data sheet's profile; nothing is measured.
//   build/release/bin/simulated_scaling     one JSON object a line; takes a minute, and 4 GiB
#include <functional>
#include <string>

#include <fmt/format.h>

#include "runtime/cost/profile.h"
#include "runtime/cost/step_time.h"
#include "tests/virtual_clock/execute.h"

using namespace trireme;
using namespace trireme::cost;
using namespace trireme::virtual_clock;

namespace {

/// Layers as Llama's, and a small vocabulary.
TransformerConfig model(Index layers, Index width = 4096) {
  TransformerConfig config = preset("tiny-llama");
  config.num_layers = layers;
  config.hidden_size = width;
  config.ffn_hidden_size = 7 * width / 2;
  config.num_attention_heads = width / 64;
  config.num_query_groups = 0;
  config.vocab_size = 8192;
  config.seq_length = config.max_position_embeddings = 4096;
  config.tie_embeddings = false;
  return config;
}

Candidate candidate(const MeshShape& mesh, Index micro_batches) {
  Candidate c;
  c.spec.mesh = mesh;
  c.spec.global_batch_size = micro_batches * mesh.size(Axis::data);
  c.spec.compute = DType::bf16;
  c.spec.update = Update::sharded;
  c.spec.bucket_size = Index{40} << 20;
  c.recompute = RecomputeGranularity::full;
  c.sequence_parallel = mesh.size(Axis::tensor) > 1 ? SequenceParallel::on : SequenceParallel::off;
  return c;
}

void run(const std::string& what, const TransformerConfig& config, const Candidate& c,
         const std::string& more = "") {
  Profile profile = known_profile("H100-SXM");
  profile.contention = 0;  // not simulated
  const ModelOfCandidate models = transformer_models(config);
  const StepTime predicted = step_time(LayoutPlanner(models, profile.device).plan(c), profile, {});
  const ExecutedStep step = execute(models(c), c.spec, profile, {}).front();
  fmt::print(
      "{{\"curve\": \"{}\", \"gpus\": {}, \"data\": {}, \"pipeline\": {}, \"tensor\": {}{}, "
      "\"step_ms\": {:.2f}, \"predicted_ms\": {:.2f}, \"busy\": {:.4f}, \"exposed_sums_ms\": "
      "{:.2f}}}\n",
      what, c.spec.mesh.size(), c.spec.mesh.size(Axis::data), c.spec.mesh.size(Axis::pipeline),
      c.spec.mesh.size(Axis::tensor), more, step.seconds() * 1e3, predicted.total * 1e3,
      step.busy(), (step.summed() - step.backward()) * 1e3);
  std::fflush(stdout);
}

/// 4 layers and 4 micro-batches a GPU.
void scale_data() {
  for (int data = 1; data <= 1024; data *= 4) run("data", model(4), candidate({data, 1, 1}, 4));
}

/// 2 layers of equal products a GPU: the width grows as the root of the GPUs.
void scale_tensor() {
  for (int tensor = 1, width = 2048; tensor <= 1024; tensor *= 4, width *= 2)
    run("tensor", model(2, width), candidate({1, 1, tensor}, 2));
}

/// 2 layers a GPU, 4 micro-batches a stage, on 16 data ranks.
void scale_pipeline() {
  for (int stages = 1; stages <= 64; stages *= 4)
    run("pipeline", model(2 * stages), candidate({16, stages, 1}, 4 * stages));
}

void bubbles() {
  for (const ScheduleKind kind : all_schedules())
    for (const Index micro_batches : {8, 16, 32, 64}) {
      Candidate c = candidate({1, 8, 1}, micro_batches);
      c.recompute = RecomputeGranularity::none;
      c.spec.schedule = kind;
      c.spec.chunks =
          kind == ScheduleKind::interleaved || kind == ScheduleKind::zero_bubble_v ? 2 : 1;
      const double ideal = ideal_bubble(kind, c.spec.pipeline(0));
      run("bubble", model(32), c,
          fmt::format(", \"schedule\": \"{}\", \"micro_batches\": {}, \"ideal_busy\": {:.4f}",
                      name(kind), micro_batches, 1 - ideal));
    }
}

/// Smaller buckets start earlier, and have more latency.
void overlap() {
  for (const int millions : {1, 4, 16, 64, 256, 1024}) {
    Candidate c = candidate({64, 1, 1}, 2);
    c.spec.bucket_size = Index{millions} << 20;
    run("overlap", model(8), c, fmt::format(", \"bucket_millions\": {}", millions));
  }
}

}  // namespace

int main() {
  scale_data();
  scale_tensor();
  scale_pipeline();
  bubbles();
  overlap();
}
