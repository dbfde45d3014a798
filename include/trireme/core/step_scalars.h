// StepScalars: the numbers that change from step to step, as kernels read them. They lie in one
// block of device memory, which is written once a step: the arguments of kernels are then the same
// in every step, as the replay of a captured CUDA graph needs it.
#pragma once

#include <cstdint>

#include "trireme/core/dtype.h"
#include "trireme/core/macros.h"
#include "trireme/core/random.h"

namespace trireme {

struct StepScalars {
  Index step = 0;            // training counts from 1
  double loss_scale = 1;     // seed of backward: 1 / targets in the global batch
  float loss_scale_f32 = 1;  // the same, rounded
  float learning_rate = 0;
  float corrected_rate = 0;     // AdamW: learning_rate / (1 - beta1^updates)
  float second_correction = 0;  // AdamW: 1 / (1 - beta2^updates)
};

/// The random numbers of one name in the step that the block says.
struct StepRandom {
  std::uint64_t key = 0;  // random_key()
  const StepScalars* scalars = nullptr;

  /// Call it where `scalars` can be read: in a kernel, or on the host of a CPU.
  TRIREME_HD Random now() const {
    return random_of_step(key, static_cast<std::uint64_t>(scalars->step));
  }
};

}  // namespace trireme
