// Which rank and which shard a difference is in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/verify/judge.h"

namespace trireme::verify {

/// What is compared, and on whose ranks.
struct FaultWords {
  enum class Of { gradients, parameters };
  std::string what;  // "gradient of step 1"
  const LayoutOfRanks& ranks;
  Of of;
};

/// The parts of tensors that each rank holds, by what it has saved.
class RankPieces {
 public:
  /// None where the job has not saved the step.
  RankPieces(const std::string& folder, const FaultWords& words, Index step = 1);
  std::vector<Piece> of(const std::string& tensor) const;

 private:
  const FaultWords& words_;
  std::optional<SavedParameters> saved_;
};

/// `pieces`: those of the distance.
TensorFault fault_of(const FaultWords& words, const std::string& tensor, const Shape& global,
                     const Distance& distance, const std::vector<Piece>& pieces);

/// "pipeline 1, data 0, tensor 1".
std::string coordinates_of(int rank, const MeshShape& mesh);

}  // namespace trireme::verify
