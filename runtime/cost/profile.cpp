#include "runtime/cost/profile.h"

namespace trireme::cost {

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

double Profile::loop_rate(std::string_view op, bool backward) const {
  for (const MeasuredLoop& known : loops)
    if (known.op == op && known.backward == backward) return known.bytes_per_s;
  return bytes_per_s;
}

}  // namespace trireme::cost
