// Preparation: the work that ops did before their first call, for one line of the log.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

struct Preparation {
  Index timed = 0;                 // choices that were made here, by timing
  Index stored = 0;                // choices that another rank or another run has stored
  std::vector<std::string> notes;  // for people: why a choice could not be used
};

}  // namespace trireme
