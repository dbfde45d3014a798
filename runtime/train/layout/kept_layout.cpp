#include "runtime/train/layout/kept_layout.h"

#include <map>

#include "runtime/store/steps.h"

namespace trireme::train {
namespace {

/// Each rank has a file; the last one holds what is of none.
Index ranks_of(const Manifest& manifest) { return static_cast<Index>(manifest.files.size()) - 1; }

/// Throws: Error when an option is not there, or has a value that a layout cannot have.
planner::LayoutPins pins_of(const KeyValues& options) {
  const std::map<std::string, std::string> values(options.begin(), options.end());
  const auto value = [&](const char* option) {
    const auto found = values.find(option);
    require(found != values.end(), "no ", option);
    return found->second;
  };
  const auto flag = [&](const char* option) { return value(option) == "true" ? "1" : "0"; };
  return planner::parse_pins(str(
      "tp=", value("--tensor-model-parallel-size"), " pp=", value("--pipeline-model-parallel-size"),
      " v=", value("--num-virtual-stages-per-pipeline-rank"), " mb=", value("--micro-batch-size"),
      " schedule=", value("--schedule"), " recompute=", value("--recompute-granularity"),
      " sp=", flag("--sequence-parallel"), " zero=", flag("--use-distributed-optimizer"),
      " chunks=", value("--lm-head-chunks")));
}

}  // namespace

std::optional<KeptLayout> layout_of_checkpoint(const CheckpointOptions& options, Index ranks) {
  if (options.load.empty() || options.finetune) return std::nullopt;
  // What is wrong with these files is reported when they are loaded.
  try {
    for (const CommittedStep& step : list_steps(options.load)) {
      if (options.ckpt_step >= 0 && step.step != options.ckpt_step) continue;
      try {
        const Manifest manifest = read_manifest(step.path);
        if (ranks_of(manifest) != ranks) return std::nullopt;
        return KeptLayout{pins_of(manifest.options), str("step ", step.step, " of ", options.load)};
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
