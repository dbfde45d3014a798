// Random layouts of small transformers on random GPUs, the same for the same number.
#pragma once

#include <string>

#include "trireme/models/transformer_config.h"

#include "runtime/cost/network.h"
#include "runtime/cost/planned_layout.h"

namespace trireme::virtual_clock {

struct RandomLayout {
  TransformerConfig model;
  cost::Candidate candidate;
  cost::Profile profile;
  cost::Network network;

  Model made() const { return cost::transformer_models(model)(candidate); }
  cost::PlannedLayout planned() const;
  std::string describe() const;
};
RandomLayout random_layout(int number);

/// The time of a step that the planner gives over that of simulated ranks.
double predicted_over_executed(const RandomLayout& layout);

}  // namespace trireme::virtual_clock
