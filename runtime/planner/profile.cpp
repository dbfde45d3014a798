#include "runtime/planner/profile.h"

namespace trireme::planner {

const char* name(Grade grade) {
  switch (grade) {
    case Grade::data_sheet:
      return "data sheet";
    case Grade::calibrated:
      return "calibrated";
    case Grade::shapes:
      return "calibrated with the model's shapes";
    case Grade::tried:
      return "tried";
  }
  return "unknown";
}

}  // namespace trireme::planner
