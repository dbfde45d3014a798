#include "runtime/options/idle_options.h"

namespace trireme {

std::string idle_options(const CommandLine& command, const Options& options, Index ranks) {
  const KeyValues values = command.configuration();
  const std::vector<const OptionDefinition*> declared = command.options();
  std::string all;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const auto& [name, value] = values[i];
    if (!command.given(name) || value == "false") continue;
    std::string why;
    if (options.forward_only && declared[i]->has(OptionUse::training))
      why = "nothing is trained";
    else if (declared[i]->traits.why_idle)
      why = declared[i]->traits.why_idle(options, ranks);
    if (why.empty()) continue;
    all += str(all.empty() ? "" : ", ", name, value == "true" ? "" : " " + value, " (", why, ")");
  }
  return all;
}

}  // namespace trireme
