// What a preflight has found, for people.
#pragma once

#include <string>
#include <vector>

#include "launch/preflight/judge.h"

namespace trireme::preflight {

std::string table(const Report& report, const std::vector<Finding>& findings);

}  // namespace trireme::preflight
