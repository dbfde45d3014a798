#include "trireme/options/problems.h"

#include "runtime/options/field_names.h"

namespace trireme {

void Problems::add_text(const std::string& text) { all_.push_back(with_options(text)); }

}  // namespace trireme
