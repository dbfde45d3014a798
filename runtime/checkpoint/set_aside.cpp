#include "runtime/checkpoint/set_aside.h"

#include <fmt/format.h>

namespace trireme::checkpoint {

std::string describe_set_aside(const CheckpointOptions& options,
                               const std::vector<std::string>& names, Index step) {
  const std::string& save = options.save;
  const std::string what = names.size() == 1
                               ? fmt::format("set aside {}/{}", save, names.front())
                               : fmt::format("set aside {} checkpoints of {}, {} to {}",
                                             names.size(), save, names.back(), names.front());
  if (!options.load.empty()) return fmt::format("{}: this run resumes from step {}", what, step);
  return fmt::format(
      "{0}: without --load this run starts from scratch; to continue from one of them instead: "
      "stop, rename it to {1}/step-NNNNNN, and start with --load {1}",
      what, save);
}

}  // namespace trireme::checkpoint
