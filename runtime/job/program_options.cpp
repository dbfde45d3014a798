#include "runtime/job/program_options.h"

#include <array>
#include <filesystem>
#include <optional>

#include "trireme/comm/agree.h"
#include "trireme/core/version.h"
#include "trireme/kernels/device.h"
#include "trireme/options/gpt_options.h"

#include "runtime/core/json/json_record.h"
#include "runtime/core/parse_number.h"
#include "runtime/interop/model_files.h"
#include "runtime/job/layout/check_layout.h"
#include "runtime/options/instruction_set.h"
#include "runtime/store/steps.h"

namespace trireme::job {
namespace {

// --load-hf: the options of the model that a directory of Hugging Face describes.

/// What the command line says itself; 0: nothing.
struct GivenSizes {
  Index seq_length = 0, vocab_size = 0;
};

/// The options of config.json; of the copy in --load where the directory is gone. A larger
/// vocabulary than there is legal, so that --vocab-size is then left out. Where --load has no
/// checkpoint yet, also compares the headers of all files with the config; no tensor is read. What
/// is wrong is added to `problems`.
std::optional<SavedOptions> read_hf_options(const CheckpointOptions& options,
                                            const GivenSizes& given, Problems& problems);

/// Throws: Error with everything that does not fit, a line each, behind the path.
interop::HfConfig read_config(const CheckpointOptions& options, const std::string& directory) {
  // Without the directory only a snapshot can be loaded; where there is none, the load says so.
  const bool begins =
      directory == options.load_hf && (options.load.empty() || list_steps(options.load).empty());
  if (begins) return interop::open_model(options.load_hf).config;
  return interop::read_hf_config(directory + "/config.json");
}

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

std::vector<RankFact> facts_of(const KeyValues& options) {
  std::vector<RankFact> facts;
  for (const auto& [name, value] : options) facts.push_back({name, value});
  return facts;
}

/// The value of an option, a whole number, that the command line gives; otherwise 0.
Index given_whole(const CommandLine& command, const std::string& option) {
  if (!command.given(option)) return 0;
  for (const auto& [name, value] : command.configuration())
    if (name == option) return parse_number<Index>(value).value_or(0);
  return 0;
}

/// Collective. --use-checkpoint-args, --load-hf. Returns what was taken from where, for the log.
/// `mesh`: of all ranks. Called before the threads of the rank's device are made, which depend on
/// options.
std::string take_saved_options(Mesh& mesh, CommandLine& command, const Options& options,
                               Problems& problems) {
  const std::unique_ptr<Device> one_thread = open_cpu();
  const std::unique_ptr<Stream> stream = one_thread->make_stream();
  const CheckpointOptions& checkpoint = options.checkpoint;
  const auto read = [&](Problems& found) {
    return checkpoint.use_checkpoint_args ? read_saved_options(checkpoint, found)
                                          : read_hf_options(checkpoint,
                                                            {given_whole(command, "--seq-length"),
                                                             given_whole(command, "--vocab-size")},
                                                            found);
  };
  const auto saved = agree_on_saved_options(
      {mesh, *stream}, checkpoint.use_checkpoint_args || !checkpoint.load_hf.empty(), read,
      problems);
  if (!saved) return "";
  std::string all;
  for (const auto& [name, value] :
       command.take(saved->options, saved->origin, problems, saved->why))
    all += str(all.empty() ? "" : ", ", name, " ", value);
  return str(saved->why, ": ", saved->origin, ": ",
             all.empty() ? "the model is that of the options here" : all);
}

/// Collective. `counts`: what each rank knows of its own node.
RankCounts counts_of_all_nodes(const Host& host, const RankCounts& counts) {
  std::array<Index, 2> most = {counts.per_node, -counts.per_node};
  host.all_reduce({most.data(), most.size(), DType::i64}, Reduction::max);
  return {counts.ranks, most[0], -most[1]};
}

/// Collective. Application::choose, on rank 0. `runs`: this rank was not asked for help. Returns
/// false where nothing can be chosen, which is added to `problems`.
bool take_choices(Mesh& mesh, const Application& application, bool runs, CommandLine& command,
                  const Options& options, const RankCounts& counts, StartFacts& facts,
                  Problems& problems) {
  if (!application.choose) return true;
  const std::unique_ptr<Device> one_thread = open_cpu();
  const std::unique_ptr<Stream> stream = one_thread->make_stream();
  const RankCounts nodes = counts_of_all_nodes({mesh, *stream}, counts);
  Problems found;
  const auto chosen = agree_on_saved_options(
      {mesh, *stream}, runs,
      [&](Problems& of_choice) {
        return SavedOptions{application.choose(command, options, nodes, of_choice), "", ""};
      },
      found);
  if (chosen) found.collect([&] { command.choose(chosen->options); });
  facts.chosen = chosen && !chosen->options.empty();
  for (const std::string& problem : found.all()) problems.add(problem);
  return found.empty();
}

}  // namespace

CommandLine::Outcome read_options(int argc, char** argv, const Application& application,
                                  CommandLine& command, Options& options, Mesh& mesh,
                                  const RankCounts& counts, StartFacts& facts, Problems& problems) {
  declare_options(command, options);
  command.text("--check-layout", facts.layouts, "N,N,...",
               "start nothing, but say for each number of ranks whether this configuration can run "
               "on it, by a line of JSON; needs no mpirun");
  if (application.declare) application.declare(command, options);
  using Outcome = CommandLine::Outcome;
  const Outcome outcome = command.parse(argc, argv, problems);
  facts.program = {{"program", application.name},
                   {"version of trireme", version()},
                   {"--help", outcome == Outcome::help ? "true" : "false"},
                   {"--version", outcome == Outcome::version ? "true" : "false"},
                   {"--help-markdown", outcome == Outcome::reference ? "true" : "false"}};
  if (command.given("--check-layout") && !layouts_to_check(argc, argv))
    problems.add("--check-layout belongs on the command line, not into a file");
  if (options.plan_only && !layout_to_print(argc, argv))
    problems.add("--plan-only belongs on the command line, not into a file");
  set_instruction_set(command, options, problems);
  facts.from_checkpoint = take_saved_options(mesh, command, options, problems);
  const bool runs = outcome == Outcome::run;
  if (runs) facts.given = facts_of(command.common());
  if (runs && application.derive_defaults) application.derive_defaults(command, options);
  const bool chosen =
      take_choices(mesh, application, runs, command, options, counts, facts, problems);
  if (!runs) return outcome;
  derive_defaults(command, options);
  if (chosen) check_options(command, options, counts.ranks, problems);
  if (chosen && application.check) application.check(command, options, counts.ranks, problems);
  facts.effective = facts_of(command.common());
  return outcome;
}

namespace {

/// What rank 0 has found.
struct Found {
  std::vector<std::string> problems;
  std::optional<SavedOptions> saved;
};

void describe(RecordOf<Found> auto& found, auto& member) {
  member("problems", found.problems);
  member("saved", found.saved);
}

}  // namespace

void describe(RecordOf<SavedOptions> auto& saved, auto& member) {
  member("options", saved.options);
  member("origin", saved.origin);
  member("why", saved.why);
}

std::optional<SavedOptions> read_saved_options(const CheckpointOptions& options,
                                               Problems& problems) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.load, ignored)) return std::nullopt;
  const std::string title = "--use-checkpoint-args: --load " + options.load;
  std::vector<CommittedStep> steps;
  const std::size_t before = problems.all().size();
  problems.collect([&] { steps = list_steps(options.load); });
  if (problems.all().size() > before) return std::nullopt;
  std::string reasons;
  for (const CommittedStep& step : steps) {
    if (options.ckpt_step >= 0 && step.step != options.ckpt_step) continue;
    try {
      return SavedOptions{read_manifest(step.path).options,
                          str("step ", step.step, " of ", options.load)};
    } catch (const Error& error) {
      if (reasons.empty()) reasons = error.what();
    }
  }
  if (!reasons.empty())
    problems.add(title, ": no step can be read: ", reasons);
  else if (options.ckpt_step >= 0)
    problems.add(title, " has no step ", options.ckpt_step, " of --ckpt-step");
  else
    problems.add(title, " has no checkpoint to take the model from; give the model's options");
  return std::nullopt;
}

std::optional<SavedOptions> agree_on_saved_options(
    const Host& host, bool wanted,
    const std::function<std::optional<SavedOptions>(Problems&)>& read, Problems& problems) {
  std::string packed;
  if (host.rank() == 0 && wanted) {
    Problems problems_found;
    Found found;
    problems_found.collect([&] { found.saved = read(problems_found); });
    found.problems = problems_found.all();
    packed = to_text(to_json(found));
  }
  packed = broadcast_text(host, packed);
  if (packed.empty() || !wanted) return std::nullopt;
  const auto found = from_json<Found>(parse_json(packed));
  for (const std::string& problem : found.problems) problems.add(problem);
  return found.saved;
}

}  // namespace trireme::job
