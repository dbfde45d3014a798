#include "runtime/rank_plan/reduction_order.h"

#include <algorithm>

namespace trireme {
namespace {

/// Chunks in the order in which their last gradients of weights are made.
std::string order_of_ends(const TrainingSpec& spec, const PipelineShape& shape, int stage) {
  const WorkOrder order =
      spec.own_schedule ? spec.own_schedule(shape, stage) : work_order(spec.schedule, shape, stage);
  std::string ends;
  for (const Work& work : order)
    if (work.micro_batch == shape.micro_batches - 1 &&
        (work.kind == WorkKind::backward || work.kind == WorkKind::backward_weight))
      ends += str(ends.empty() ? "" : " ", describe(work, shape.chunks).back());
  return ends;
}

}  // namespace

std::vector<PipelineShape> pipeline_shapes(const TrainingSpec& spec) {
  std::vector<PipelineShape> shapes;
  const int size = spec.data_parallel_shares.empty() ? 1 : spec.mesh.size(Role::gradient);
  for (int data = 0; data < size; ++data) {
    const PipelineShape shape = spec.pipeline(data);
    if (std::none_of(shapes.begin(), shapes.end(), [&](const PipelineShape& known) {
          return known.micro_batches == shape.micro_batches;
        }))
      shapes.push_back(shape);
  }
  return shapes;
}

void check_reduction_order(const PlanTarget& target) {
  const TrainingSpec& spec = target.spec;
  const std::vector<PipelineShape> shapes = pipeline_shapes(spec);
  if (shapes.size() == 1 || spec.chunks == 1) return;
  const int stage = target.coordinate(Role::stage);
  const std::string first = order_of_ends(spec, shapes.front(), stage);
  for (const PipelineShape& shape : shapes) {
    const std::string order = order_of_ends(spec, shape, stage);
    require(order == first, "--data-parallel-shares ", describe(spec.data_parallel_shares),
            ": stage ", stage, " of the schedule ends its chunks in the order ", first, " with ",
            shapes.front().micro_batches, " micro-batches and ", order, " with ",
            shape.micro_batches,
            ", so that data ranks would sum gradients in different orders; use equal shares, or "
            "another schedule");
  }
}

}  // namespace trireme
