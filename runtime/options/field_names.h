// Messages of lower modules name C++ fields and functions; users of a command line see the options
// that set them.
//
// Not installed; modules above may include it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trireme/core/key_values.h"

namespace trireme {

struct FieldName {
  std::string_view field;   // as a message has it: "TransformerConfig::hidden_size"
  std::string_view option;  // what to write instead: "--hidden-size"
  bool opposite = false;    // the option is given where the field is false
};
std::span<const FieldName> field_names();

/// The text with its fields replaced by options: "TransformerConfig::hidden_size 100 is ..."
/// becomes "--hidden-size 100 is ...". Only whole names are replaced.
std::string with_options(std::string_view text);

/// Fields and their values as options with theirs: {"TransformerConfig::tie_embeddings", "false"}
/// becomes {"--untie-embeddings-and-output-weights", "true"}. Other names and values stay.
KeyValues as_options(const KeyValues& fields);

}  // namespace trireme
