#include "tests/virtual_clock/random_layout.h"

#include <vector>

#include "trireme/pipeline/schedule.h"

#include "runtime/cost/profile.h"
#include "runtime/cost/step_time.h"
#include "tests/support/draw.h"
#include "tests/virtual_clock/execute.h"

namespace trireme::virtual_clock {
namespace {

using test::Draw;

TransformerConfig draw_model(Draw& draw, int virtual_stages, DType compute) {
  TransformerConfig model = preset(draw.one_of<const char*>({"tiny", "tiny-llama"}));
  model.num_layers = virtual_stages * (1 + draw.below(2)) + draw.below(3);
  model.num_attention_heads = draw.one_of<Index>({8, 16, 32});
  model.num_query_groups = draw.once_in(3) ? 8 : 0;
  const Index head = draw.one_of<Index>({64, 128});  // on some GPUs 128 in f32 needs too much
  model.hidden_size = model.num_attention_heads * (compute == DType::f32 ? 64 : head);
  model.ffn_hidden_size = 0;
  model.seq_length = model.max_position_embeddings = draw.one_of<Index>({256, 1024, 2048});
  model.vocab_size = draw.one_of<Index>({1000, 8192, 32000});
  model.tie_embeddings = draw.once_in(2);
  return model;
}

/// A pipeline that the schedule can run.
PipelineShape draw_pipeline(Draw& draw, ScheduleKind kind) {
  for (;;) {
    const PipelineShape shape{static_cast<int>(draw.one_of<Index>({1, 2, 2, 3, 4, 4})),
                              static_cast<int>(1 + draw.below(3)), 1 + draw.below(12),
                              route_of(kind)};
    if (schedule_problem(kind, shape).empty()) return shape;
  }
}

cost::Profile draw_profile(Draw& draw) {
  cost::Profile profile =
      cost::known_profile(draw.one_of<const char*>({"H100-SXM", "A100-80GB", "RTX-4090"}));
  profile.contention = 0;  // of hardware: not simulated
  if (draw.once_in(4)) {   // a CPU rank
    profile.device = DeviceTraits{};
    profile.queues = false;
  } else {  // of a host that limits its GPU the planner knows a bound only
    profile.op_seconds = 1e-7;
  }
  return profile;
}

}  // namespace

RandomLayout random_layout(int number) {
  Draw draw(1, "random layout", static_cast<std::uint64_t>(number));
  RandomLayout layout;
  TrainingSpec& spec = layout.candidate.spec;
  spec.schedule = draw.one_of(all_schedules());
  const PipelineShape pipeline = draw_pipeline(draw, spec.schedule);
  const int tensor = draw.one_of<int>({1, 1, 2, 4, 8}), data = draw.one_of<int>({1, 2, 3, 4, 8});
  spec.mesh = MeshShape(data, pipeline.stages, tensor);
  spec.chunks = pipeline.chunks;
  spec.micro_batch_size = 1 + draw.below(2);
  Index micro_batches = pipeline.micro_batches * data;
  if (pipeline.chunks == 1 && draw.once_in(4)) {  // unequal shares
    micro_batches = 0;
    for (int rank = 0; rank < data; ++rank) {
      spec.data_parallel_shares.push_back(1 + draw.below(3));
      micro_batches += spec.data_parallel_shares.back();
    }
    micro_batches *= 1 + draw.below(4);
  }
  spec.global_batch_size = spec.micro_batch_size * micro_batches;
  spec.compute = draw.one_of<DType>({DType::bf16, DType::bf16, DType::f32});
  spec.update = draw.one_of<Update>({Update::replicated, Update::sharded});
  spec.bucket_size = draw.one_of<Index>({1 << 16, 1 << 20, 10 << 20, 40 << 20});
  layout.candidate.recompute = draw.one_of<RecomputeGranularity>(
      {RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full});
  // The sums of many small buckets over the tensor axis hold up backward, which the planner
  // ignores.
  layout.candidate.sequence_parallel = tensor > 1 && spec.bucket_size >= 10 << 20 && draw.once_in(2)
                                           ? SequenceParallel::on
                                           : SequenceParallel::off;
  layout.candidate.lm_head_chunks = draw.one_of<Index>({1, 2, 4});
  layout.model = draw_model(draw, pipeline.virtual_stages(), spec.compute);
  layout.profile = draw_profile(draw);
  layout.network.ranks_per_node = draw.one_of<int>({4, 8, 8});
  return layout;
}

cost::PlannedLayout RandomLayout::planned() const {
  return cost::LayoutPlanner(cost::transformer_models(model), profile.device).plan(candidate);
}

double predicted_over_executed(const RandomLayout& layout) {
  const double executed =
      execute(layout.made(), layout.candidate.spec, layout.profile, layout.network)
          .front()
          .seconds();
  return step_time(layout.planned(), layout.profile, layout.network).total / executed;
}

std::string RandomLayout::describe() const {
  const TrainingSpec& spec = candidate.spec;
  return str(spec.mesh.describe(), ", ", name(spec.schedule), " x ", spec.chunks, ", ",
             spec.global_batch_size / spec.micro_batch_size, " micro-batches of ",
             spec.micro_batch_size, spec.data_parallel_shares.empty() ? "" : " in unequal shares",
             ", recompute ", name(candidate.recompute), ", ",
             spec.update == Update::sharded ? "sharded" : "replicated", " update, buckets of ",
             spec.bucket_size, ", sequence parallel ",
             candidate.sequence_parallel == SequenceParallel::on ? "on" : "off", ", ",
             candidate.lm_head_chunks, " head chunks, ", spec.compute, ", ", model.num_layers,
             " layers of ", model.hidden_size, ", sequence ", model.seq_length, ", vocabulary ",
             model.vocab_size, model.tie_embeddings ? " tied, " : ", ", profile.name,
             profile.queues ? "" : " as a CPU", ", nodes of ", network.ranks_per_node);
}

}  // namespace trireme::virtual_clock
