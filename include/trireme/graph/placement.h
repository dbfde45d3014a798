// Placement: how a value is distributed over the mesh. Typed, because a misplaced collective
// doubles gradients silently: the trace rejects it instead. (Korthikanti et al. 2022,
// arXiv:2205.05198, illustrates f, g and their sequence-parallel forms.)
#pragma once

#include <array>
#include <cstddef>
#include <ostream>
#include <vector>

#include "trireme/core/mesh_shape.h"

namespace trireme {

/// One state along each role in which values are distributed.
class Placement {
 public:
  enum class State {
    replicated,        // every rank holds the same value, and computes its complete gradient
    partial_gradient,  // the same value, but each rank computes one term of its gradient: `enter`
    sharded,           // each rank holds its part, and the gradient of its part
    partial,           // each rank holds one term of a sum; it must leave (all-reduce or
                       // reduce-scatter) before it is used
  };
  /// Another role in which values are distributed is one more here.
  static constexpr std::array roles = {Role::tensor};
  /// Values in this state along the tensor axis, and replicated along others.
  static const Placement replicated, partial_gradient, sharded, partial;

  constexpr Placement() = default;  // replicated
  State along(Role role) const { return states_[index(role)]; }
  Placement with(Role role, State state) const;
  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  constexpr explicit Placement(State tensor) : states_{tensor} {}
  /// Throws: Error for a role in which no value is distributed.
  static std::size_t index(Role role);

  std::array<State, roles.size()> states_{};  // by `roles`
};
inline constexpr Placement Placement::replicated{State::replicated};
inline constexpr Placement Placement::partial_gradient{State::partial_gradient};
inline constexpr Placement Placement::sharded{State::sharded};
inline constexpr Placement Placement::partial{State::partial};

const char* name(Placement::State state);
/// Writes the states, in the order of the roles.
std::ostream& operator<<(std::ostream& out, const Placement& placement);

using Placements = std::vector<Placement>;

}  // namespace trireme
