#include "trireme/graph/place.h"

namespace trireme {

const char* name(Place place) {
  switch (place) {
    case Place::whole:
      return "whole";
    case Place::entered:
      return "entered";
    case Place::split:
      return "split";
    case Place::term:
      return "term";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, Place place) { return out << name(place); }

}  // namespace trireme
