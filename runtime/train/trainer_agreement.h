// What ranks compare when they have traced the model, and before they train on data.
#pragma once

#include <string>
#include <vector>

#include "trireme/data/source.h"
#include "trireme/job/run.h"

#include "runtime/job/rank_agreement.h"
#include "runtime/rank_plan/planned_training.h"

namespace trireme::train {

/// A whole model as every rank must trace it: blocks, inputs, parameters in their logical shapes,
/// ops with their places, results and stages. Shapes of values that are split over the tensor axis
/// are left out, since shares may be unequal.
std::vector<RankFact> facts_of(const std::string& title, const PlannedModel& model);

/// Collective. Throws: ConfigurationError on all ranks when they have traced different models.
/// `identity`: Model::identity.
void agree_on_model(const Host& host, const PlannedTraining& plan, const KeyValues& identity);

/// Collective. Throws: ConfigurationError on all ranks when identity() differs, or only some have a
/// source. `use`: "data".
void agree_on_data(const Host& host, const DataSource* source, const std::string& use);
/// Collective. Throws: ConfigurationError on all ranks when `count` differs, where ranks would
/// wait for each other without end. `what`: "samples of outputs". Allocates only where it throws.
void agree_on_count(const Host& host, Index count, const char* what);

}  // namespace trireme::train
