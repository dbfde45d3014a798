// The text and the name of a sidecar (trireme/data/sidecar.h), for those that write it.
#pragma once

#include <string>

#include "trireme/data/sidecar.h"

namespace trireme::data {

std::string sidecar_path(const std::string& prefix);
/// A line of JSON.
std::string text_of(const Sidecar& sidecar);
/// Whether a PREFIX.json exists that is not a sidecar: it must not be replaced.
bool is_taken(const std::string& path);
/// Removes the sidecar of earlier tokens, and no other file of that name.
void remove_sidecar(const std::string& prefix);

}  // namespace trireme::data
