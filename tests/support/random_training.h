// Random small trainings of train_gpt: a model, an optimizer, and a layout that trains alike; the
// same for the same seed and number.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/core/dtype.h"

namespace trireme::test {

struct RandomTraining {
  int ranks = 1;
  Index global_batch_size = 0;
  // Options: those that one rank has as well, and those of the layout.
  std::string model, layout;

  /// Returns the options of one rank that runs a step as one micro-batch.
  std::string on_one_rank() const;
  std::string on_all_ranks() const { return model + layout; }
};

/// A training that train_gpt itself calls legal: another is drawn in place of one that it refuses.
/// `data`: PREFIX of text in bytes.
RandomTraining random_training(std::uint64_t seed, std::uint64_t number, const std::string& data);

}  // namespace trireme::test
