#include "trireme/graph/placement.h"

namespace trireme {

const char* name(Placement placement) {
  switch (placement) {
    case Placement::replicated:
      return "replicated";
    case Placement::partial_gradient:
      return "partial_gradient";
    case Placement::sharded:
      return "sharded";
    case Placement::partial:
      return "partial";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, Placement placement) { return out << name(placement); }

}  // namespace trireme
