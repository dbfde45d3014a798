// Rates of attention, forward and backward.
#pragma once

#include "launch/calibrate/timer.h"
#include "runtime/cost/profile.h"

namespace trireme::calibrate {

struct AttentionCase {
  Index sequence, query_heads, kv_heads, head_dim;
};
/// 3 lengths x 2 sizes of heads.
std::vector<AttentionCase> usual_attention();

/// Collective. Adds to the profile those that `budget_s` lets it begin, the first one always.
void measure_attention(const Context& context, Timer& timer,
                       const std::vector<AttentionCase>& cases, double budget_s,
                       cost::Profile& profile);

}  // namespace trireme::calibrate
