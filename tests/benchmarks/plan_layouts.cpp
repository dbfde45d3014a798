// plan_layouts: how much processor time the planner takes for one layout, alone and after others of
// the model.
//   build/release/bin/plan_layouts     one JSON object per layout; needs neither ranks nor a GPU
#include <ctime>
#include <functional>

#include <fmt/format.h>

#include "runtime/cost/profile.h"
#include "runtime/cost/step_time.h"
#include "tests/benchmarks/timing.h"

using namespace trireme;
using namespace trireme::cost;

namespace {

constexpr int rounds = 5;

/// Of the processor, so that other programs on the machine count little. One thread plans.
double cpu_ms_of(const std::function<void()>& call) {
  const std::clock_t begin = std::clock();
  call();
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TransformerConfig llama_70b() {
  TransformerConfig config = preset("llama-8b");
  config.num_layers = 80;
  config.hidden_size = 8192;
  config.ffn_hidden_size = 28672;
  config.num_attention_heads = 64;
  config.seq_length = 4096;
  return config;
}

struct Layout {
  int tensor, pipeline, data, chunks;
  Index micro_batches;
};

Candidate candidate(const Layout& layout) {
  Candidate c;
  c.spec.mesh = MeshShape(layout.data, layout.pipeline, layout.tensor);
  c.spec.chunks = layout.chunks;
  c.spec.schedule = layout.chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  c.spec.global_batch_size = layout.micro_batches * layout.data;
  c.spec.compute = DType::bf16;
  c.spec.update = Update::sharded;
  c.spec.bucket_size = Index{40} << 20;
  c.sequence_parallel = layout.tensor > 1 ? SequenceParallel::on : SequenceParallel::off;
  return c;
}

void measure(const Layout& layout) {
  const Profile profile = known_profile("H100-SXM");
  const Candidate c = candidate(layout);
  Candidate half = c;
  half.spec.mesh = MeshShape(std::max(1, layout.data / 2), layout.pipeline, layout.tensor);
  std::vector<double> alone, cached, timed;
  StepTime time;
  Index bytes = 0;
  for (int i = 0; i < rounds; ++i) {
    LayoutPlanner planner(transformer_models(llama_70b()), profile.device);
    PlannedLayout planned;
    alone.push_back(cpu_ms_of([&] { planned = planner.plan(half); }));
    cached.push_back(cpu_ms_of([&] { planned = planner.plan(c); }));
    timed.push_back(cpu_ms_of([&] { time = step_time(planned, profile, {}); }));
    bytes = device_bytes(planned, profile);
  }
  fmt::print(
      "{{\"ranks\": {}, \"tensor\": {}, \"pipeline\": {}, \"chunks\": {}, \"micro_batches\": {}, "
      "\"plan_ms\": {:.1f}, \"plan_again_ms\": {:.1f}, \"time_ms\": {:.1f}, \"step_s\": {:.2f}, "
      "\"products_s\": {:.2f}, \"tensor_s\": {:.2f}, \"data_s\": {:.2f}, \"memory_bound_s\": "
      "{:.2f}, \"bubble_s\": {:.2f}, \"gib\": {:.1f}}}\n",
      c.spec.mesh.size(), layout.tensor, layout.pipeline, layout.chunks, layout.micro_batches,
      median(alone), median(cached), median(timed), time.total, time.products, time.tensor_traffic,
      time.data_traffic, time.memory_bound, time.bubble,
      static_cast<double>(bytes) / (Index{1} << 30));
}

}  // namespace

int main() {
  for (const Layout& layout :
       {Layout{8, 4, 2, 1, 32}, Layout{8, 8, 16, 1, 32}, Layout{8, 8, 16, 5, 32},
        Layout{8, 16, 128, 1, 32}, Layout{8, 16, 128, 5, 256}})
    measure(layout);
}
