#include "trireme/comm/mesh.h"

namespace trireme {

Communicator& Mesh::group(Role role) {
  if (const std::optional<Axis> only = shape().only_axis(role)) return axis(*only);
  std::unique_ptr<Communicator>& group = groups_[role];
  if (!group) group = split(shape().group(rank(), role).front(), name(role));
  return *group;
}

}  // namespace trireme
