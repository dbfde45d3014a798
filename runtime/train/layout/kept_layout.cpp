#include "runtime/train/layout/kept_layout.h"

#include <algorithm>

#include "runtime/layouts/search/training_task.h"
#include "runtime/options/known_options.h"
#include "runtime/store/steps.h"

namespace trireme::train {
namespace {

/// Each rank has a file; the last one holds what is of none.
Index ranks_of(const Manifest& manifest) { return static_cast<Index>(manifest.files.size()) - 1; }

/// Throws: Error when an option is not there, or has a value that a layout cannot have.
layouts::LayoutPins pins_of(const KeyValues& options) {
  const KnownOptions known;
  layouts::LayoutPins pins;
  layouts::for_each_word([&](const std::string& word, auto /*value*/, auto /*pin*/) {
    const OptionDefinition* option = layouts::option_of(known.command(), word);
    if (option == nullptr) return;
    const auto found = std::find_if(options.begin(), options.end(), [&](const auto& each) {
      return each.first == option->canonical_name();
    });
    require(found != options.end(), "it does not say its ", option->canonical_name());
    const std::string& value = found->second;
    pins = layouts::parse_pins(word + "=" +
                                   (option->takes_value() ? value
                                    : value == "true"     ? "1"
                                                          : "0"),
                               pins);
  });
  return pins;
}

/// Throws: Error when the manifest cannot be read.
KeptLayout layout_of(const CommittedStep& step, const std::string& load, Index ranks) {
  const Manifest manifest = read_manifest(step.path);
  KeptLayout layout{str("step ", step.step, " of ", load), {}, ""};
  const Index wrote = ranks_of(manifest);
  if (wrote != ranks) {
    layout.problem = str(wrote, wrote == 1 ? " rank" : " ranks", " wrote it, and here are ", ranks);
    return layout;
  }
  try {
    layout.pins = pins_of(manifest.options);
  } catch (const Error& error) {
    layout.problem = error.what();
  }
  return layout;
}

}  // namespace

std::optional<KeptLayout> layout_of_checkpoint(const CheckpointOptions& options, Index ranks) {
  if (options.load.empty() || options.finetune) return std::nullopt;
  // What is wrong with these files is reported when they are loaded.
  try {
    for (const CommittedStep& step : list_steps(options.load)) {
      if (options.ckpt_step >= 0 && step.step != options.ckpt_step) continue;
      try {
        return layout_of(step, options.load, ranks);
      } catch (const Error&) {
        continue;
      }
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace trireme::train
