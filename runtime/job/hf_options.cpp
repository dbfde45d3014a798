#include "runtime/job/hf_options.h"

#include "trireme/options/gpt_options.h"

#include "runtime/interop/model_files.h"
#include "runtime/store/steps.h"

namespace trireme::job {
namespace {

/// Throws: Error with everything that does not fit, a line each, behind the path.
interop::HfConfig read_config(const CheckpointOptions& options, const std::string& directory) {
  // Without the directory only a snapshot can be loaded; where there is none, the load says so.
  const bool begins =
      directory == options.load_hf && (options.load.empty() || list_steps(options.load).empty());
  if (begins) return interop::open_model(options.load_hf).config;
  return interop::read_hf_config(directory + "/config.json");
}

}  // namespace

std::optional<SavedOptions> read_hf_options(const CheckpointOptions& options,
                                            const GivenSizes& given, Problems& problems) {
  const std::string directory = interop::directory_of_config(options.load_hf, options.load);
  if (directory.empty()) {
    problems.add("--load-hf ", interop::why_no_model(options.load_hf));
    return std::nullopt;
  }
  try {
    const interop::HfConfig config = read_config(options, directory);
    SavedOptions found{options_of(config.model), directory + "/config.json", "--load-hf"};
    if (given.vocab_size > config.model.vocab_size)
      std::erase_if(found.options, [](const auto& each) { return each.first == "--vocab-size"; });
    for (const std::string& problem : interop::training_length_problems(
             config, "--load-hf " + options.load_hf, given.seq_length))
      problems.add(problem);
    return found;
  } catch (const std::exception& error) {
    problems.add_lines("--load-hf ", error.what());
    return std::nullopt;
  }
}

}  // namespace trireme::job
