#include "trireme/graph/placement.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme {

std::size_t Placement::index(Role role) {
  const auto found = std::find(roles.begin(), roles.end(), role);
  require(found != roles.end(), "values have no placement along ", trireme::name(role));
  return static_cast<std::size_t>(found - roles.begin());
}

Placement Placement::with(Role role, State state) const {
  Placement other = *this;
  other.states_[index(role)] = state;
  return other;
}

const char* name(Placement::State state) {
  switch (state) {
    case Placement::State::replicated:
      return "replicated";
    case Placement::State::partial_gradient:
      return "partial_gradient";
    case Placement::State::sharded:
      return "sharded";
    case Placement::State::partial:
      return "partial";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, const Placement& placement) {
  for (std::size_t i = 0; i < Placement::roles.size(); ++i)
    out << (i == 0 ? "" : ", ") << name(placement.along(Placement::roles[i]));
  return out;
}

}  // namespace trireme
