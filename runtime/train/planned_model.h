// PlannedModel: a model traced, cut and planned for this rank: everything known before memory
// exists.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/graph/plan.h"
#include "trireme/job/run.h"
#include "trireme/optim/flat_parameters.h"

namespace trireme {

struct PlannedModel {
  std::unique_ptr<Graph> graph;
  Values results;
  StageCut cut;
  std::vector<Plan>
      chunks;  // chunk c of this rank is virtual stage c * pipeline size + pipeline rank

  std::vector<const Plan*> pointers() const;
  Index scratch_bytes() const;  // chunks run one after the other: they share it
  /// FLOPs of one micro-batch on this rank.
  double flops() const;
};

/// The training model. Throws: Error of the trace (which names op and shapes), or when there are too few blocks to cut.
PlannedModel plan_training(const std::function<Value(Graph&)>& trace, const Context& context);
/// Another model over the same blocks and parameters, forward only, cut where `training` is, so that every parameter is
/// held where it is needed.
PlannedModel plan_forward(const std::function<Value(Graph&)>& trace, const Context& context,
                          const PlannedModel& training);

/// How the parameters of such plans lie in memory.
FlatOptions flat_options(const Context& context);

/// The largest instances of the plans of a rank, one a line, for messages about memory.
std::string largest_tensors(const std::vector<const Plan*>& plans, const Graph& graph, int count);

}  // namespace trireme
