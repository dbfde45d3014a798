// The comparisons, and how far apart is too far. In fp32: invariant 1
// (docs/concepts/architecture.md). In bf16 a layout may be 1.5 times as far from one rank in fp32
// as one rank in bf16 is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/core/mesh_shape.h"

#include "launch/verify/distance.h"

namespace trireme::verify {

/// The first tensor that differs, in the order in which backward computes gradients.
struct TensorFault {
  std::string what;  // "gradient of step 1"
  std::string tensor;
  Index layer = -1;               // block of the model; -1: none
  std::string unit = "its norm";  // unit of the next two; or "the update of a step"
  double apart = 0, limit = 0;
  int rank = -1;                 // that has the part which is farthest; -1: unknown
  std::string coordinates = {};  // position of the rank: "pipeline 1, data 0, tensor 1"
  std::string shard = {};        // its part of the tensor: "[0:16, 0:64]"
  std::size_t shards_apart = 0, shards = 0;
  std::string element = {};  // "[3, 0]"
  float expected = 0, found = 0;
};

struct Check {
  std::string name;
  bool passed = false;
  double value = 0, limit = 0;  // for the worst tensor; relative
  std::string worst = {};       // name of the tensor
  Index differing = 0, compared = 0;
  std::string text = {};  // in place of value and limit
  std::optional<TensorFault> fault = {};
};

inline constexpr const char* loss_check = "loss";  // its name

/// The job whose results count as right, one rank in bf16 where the layout computes so, and the
/// layout.
struct Folders {
  std::string truth;
  std::string one;  // empty: fp32
  std::string layout;
};
/// How ranks of the layout are named.
struct LayoutOfRanks {
  MeshShape mesh;
  bool sharded = false;  // --use-distributed-optimizer: gradients are complete in slices
};

/// How far each gradient of the layout is and may be, relative to its norm: Adam makes steps of it.
/// Without those that are zero but for rounding.
using GradientDistances = std::map<std::string, double>;

std::vector<Check> check_losses(const Folders& folders);
/// Checks the gradients of step 1; the second check, in bf16, is for all of them together.
std::vector<Check> check_gradients(const Folders& folders, const LayoutOfRanks& ranks,
                                   GradientDistances& distances);
/// Checks the parameters after the last step.
std::vector<Check> check_parameters(const Folders& folders, const LayoutOfRanks& ranks,
                                    const GradientDistances& distances);
/// Two runs of one layout: losses, gradients, and every tensor that they saved.
Check check_same_bits(const std::string& first, const std::string& second,
                      const LayoutOfRanks& ranks);
/// A job that has resumed from step 1 and one that has not, at the last step. `name`: of the check.
/// `ranks`: of the job that has resumed.
Check check_resumed(const std::string& name, const std::string& whole, const std::string& resumed,
                    bool bf16, const LayoutOfRanks& ranks, const GradientDistances& distances);

/// "block.3.mlp.up.weight": 3; -1: it is in no block.
Index layer_of(const std::string& tensor);

}  // namespace trireme::verify
