// Random layouts of small transformers on random GPUs, the same for the same number.
#pragma once

#include <string>

#include "trireme/models/transformer_config.h"

#include "runtime/planner/layout.h"
#include "runtime/planner/network.h"

namespace trireme::virtual_clock {

struct RandomLayout {
  TransformerConfig model;
  planner::Candidate candidate;
  planner::Profile profile;
  planner::Network network;

  Model made() const { return planner::transformer_models(model)(candidate); }
  planner::PlannedLayout planned() const;
  std::string describe() const;
};
RandomLayout random_layout(int number);

/// The time of a step that the planner gives over that of simulated ranks.
double predicted_over_executed(const RandomLayout& layout);

}  // namespace trireme::virtual_clock
