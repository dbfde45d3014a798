// What the ranks of a layout would need and do, from one process without ranks: --check-layout and
// --plan-only.
#pragma once

#include "runtime/job/layout/layout_mesh.h"
#include "runtime/rank_plan/planned_training.h"

namespace trireme::train {

/// A rank that may differ from all others in what it needs.
struct LayoutRank {
  int rank = 0, stage = 0;
  MemoryNeed need;
};

/// With the description of all ranks where Options::plan_only asks for it. Throws: Error when the
/// model does not fit the layout.
LayoutChecked check_layout(const Context& context, const Model& model);

}  // namespace trireme::train
