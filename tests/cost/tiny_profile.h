// A device whose times are easy to compute by hand: a product of f FLOPs takes f s, a byte in
// memory takes 1 s, whatever else costs nothing until a test sets it.
#pragma once

#include "trireme/kernels/device.h"

#include "runtime/cost/planned_layout.h"
#include "runtime/cost/profile.h"

namespace trireme::cost {

inline Profile unit_profile() {
  Profile profile;
  profile.name = "unit";
  profile.device = cpu_traits();
  profile.memory = Index{1} << 30;
  profile.peak_bf16 = profile.peak_f32 = 1;
  profile.efficiency = 1;
  profile.attention_forward = profile.attention_backward = 1;
  profile.bytes_per_s = 1;
  profile.node = {0, 1};
  return profile;
}

/// Only products take time.
inline Profile products_only() {
  Profile profile = unit_profile();
  profile.bytes_per_s = 1e30;
  profile.node = {0, 1e30};
  return profile;
}

}  // namespace trireme::cost
