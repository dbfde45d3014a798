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

/// The length decides on time and memory, and models allow very long ones: it is given, and never
/// taken from the file. Positions beyond the table of a GPT-2 are the gate's affair.
void check_length(const CheckpointOptions& options, const interop::HfConfig& config, Index given,
                  Problems& problems) {
  if (given == 0)
    problems.add("--load-hf ", options.load_hf, ": give --seq-length, at most ",
                 interop::longest_sequence(config), "; it is not taken from config.json");
  for (const std::string& problem : interop::length_problems(config, given)) problems.add(problem);
  if (config.model.position == PositionKind::rotary && given > config.max_positions)
    problems.add("--seq-length ", given, " is too long: max_position_embeddings in config.json of ",
                 "--load-hf ", options.load_hf, " is ", config.max_positions,
                 "; a model of longer sequences says so there");
}

}  // namespace

std::optional<SavedOptions> read_hf_options(const CheckpointOptions& options,
                                            const GivenSizes& given, Problems& problems) {
  const std::string directory = interop::directory_of_config(options.load_hf, options.load);
  if (directory.empty()) {
    problems.add("--load-hf ", options.load_hf,
                 ": has no config.json; the directory of a Hugging Face model is needed");
    return std::nullopt;
  }
  try {
    const interop::HfConfig config = read_config(options, directory);
    SavedOptions found{options_of(config.model), directory + "/config.json", "--load-hf"};
    if (given.vocab_size > config.model.vocab_size)
      std::erase_if(found.options, [](const auto& each) { return each.first == "--vocab-size"; });
    check_length(options, config, given.seq_length, problems);
    return found;
  } catch (const std::exception& error) {
    problems.add_lines("--load-hf ", error.what());
    return std::nullopt;
  }
}

}  // namespace trireme::job
