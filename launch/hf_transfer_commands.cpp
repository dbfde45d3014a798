// trireme hf import, trireme hf export: models of Hugging Face into a run and out of it.
#include <ctime>
#include <filesystem>
#include <iostream>
#include <string>

#include <fmt/chrono.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/version.h"
#include "trireme/data/sidecar.h"
#include "trireme/data/tokenizer.h"
#include "trireme/options/gpt_options.h"

#include "launch/commands.h"
#include "launch/step_arguments.h"
#include "runtime/core/output/output_file.h"
#include "runtime/core/text/one_line.h"
#include "runtime/interop/export.h"
#include "runtime/interop/hf_files.h"
#include "runtime/interop/import.h"
#include "runtime/interop/model_files.h"
#include "runtime/options/check_options.h"
#include "runtime/store/steps.h"

namespace trireme {
namespace {

// --tokenizer of `trireme hf export`.

/// `path`: a directory of a tokenizer, or the tokenizer.json in it. `vocabulary`: of the model that
/// `step` of `run` has. Throws: Error that names the path and the other tokenizer when it is not
/// that of the run, or when it cannot be read or copied.
interop::OutputTokenizer tokenizer_for(const std::string& path, const OpenedStep& step,
                                       const std::string& run, Index vocabulary);

/// What to do about an export that has no tokenizer.
std::string advice_without_tokenizer(const OpenedStep& step);

namespace fs = std::filesystem;

constexpr const char* file_name = "tokenizer.json";

std::string directory_of(const std::string& path) {
  const fs::path whole = fs::absolute(path);
  if (!fs::is_regular_file(whole)) return path;
  require(whole.filename() == file_name, "--tokenizer ", path, ": the file is not named ",
          file_name, "; give such a file, or the directory that has it");
  return whole.parent_path().string();
}

/// Null: the run does not say.
const std::string* tokenizer_of(const OpenedStep& step) {
  return step.manifest.identity_of(str(data_facts, tokenizer_fact));
}

/// The step's data was not known, or was that of `hash`.
void check_kept(const std::string& path, const std::string& hash, const std::string& run,
                bool is_known) {
  const std::string kept = run + '/' + interop::kept_directory + '/' + file_name;
  if (!fs::exists(kept)) return;
  std::string other;
  try {
    other = data::Tokenizer::load(kept).hash();
  } catch (const Error& error) {
    require(is_known, "--tokenizer ", path, " cannot be compared with the one that the run began ",
            "with: ", error.what());
    return;
  }
  require(other == hash, "--tokenizer ", path, " is ", hash, ", but the run began with tokenizer ",
          other, " (", kept, "); leave --tokenizer out to export that one");
}

interop::OutputTokenizer tokenizer_for(const std::string& path, const OpenedStep& step,
                                       const std::string& run, Index vocabulary) {
  const std::string directory = directory_of(path);
  const data::Tokenizer tokenizer = data::Tokenizer::load(directory);
  for (const std::string& warning : tokenizer.warnings())
    std::cerr << "trireme: warning: " << warning << '\n';
  const std::string hash = tokenizer.hash();
  const std::string* trained = tokenizer_of(step);
  require(trained == nullptr || *trained != Sidecar::bytes, "--tokenizer ", path, " is ", hash,
          ", but the tokens of the data of ", step.directory, " are bytes; leave it out");
  require(trained == nullptr || *trained == hash, "--tokenizer ", path, " is ", hash,
          ", but the tokens of the data of ", step.directory, " are those of tokenizer ",
          trained == nullptr ? "" : *trained, "; give that one");
  check_kept(path, hash, run, trained != nullptr);
  require(tokenizer.vocabulary() <= vocabulary, "--tokenizer ", path, " has ",
          tokenizer.vocabulary(), " tokens, more than the ", vocabulary, " of the model of ",
          step.directory, "; give the one that made its data");
  interop::tokenizer_files(directory);  // sees whether they can be copied
  return {directory, tokenizer.bos(), tokenizer.eod()};
}

std::string advice_without_tokenizer(const OpenedStep& step) {
  const std::string* trained = tokenizer_of(step);
  if (trained != nullptr && *trained == Sidecar::bytes)
    return "no tokenizer was written: tokens of this run are bytes, which no tokenizer.json has";
  return str("no tokenizer was written, as the run keeps none",
             trained == nullptr ? "" : str("; its data has tokens of tokenizer ", *trained),
             "; programs that make tokens of text need one: give --tokenizer DIR");
}

/// Data that the run is trained on must have the tokenizer of the model. Returns why the manifest
/// does not say which that is; "" where it does, or where the model has none.
std::string add_tokenizer(const std::string& model, Manifest& head) {
  const std::string path = model + "/tokenizer.json";
  if (!std::filesystem::exists(path)) return "";
  try {
    head.identity.emplace_back(str(data_facts, tokenizer_fact), data::Tokenizer::load(path).hash());
    return "";
  } catch (const Error& error) {
    return one_line(str("data of another tokenizer will not be refused: ", error.what()));
  }
}

/// What the manifest of an imported step says besides its tensors, and its tokenizer.
Manifest head_of(const interop::ModelFiles& model) {
  Manifest head;
  head.run = fmt::format("hf-import-{}", ::getpid());
  head.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  head.layout = "imported from " + model.files.path;
  for (const auto& [name, value] : model.config.model.identity())
    head.identity.emplace_back("model/" + name, value);
  head.identity.emplace_back("origin/model type", model.config.model_type);
  head.identity.emplace_back("origin/headers xxh3", to_text(model.files.headers));
  head.options = options_of(model.config.model);
  head.versions = {{"trireme", version()}};
  return head;
}

void check_run_to_write(const std::string& run, const std::string& model, Problems& problems) {
  options::check_directory("--output", run, problems);
  if (run.empty() || !problems.empty()) return;
  if (same_place(run, model))
    problems.add("--output ", run, " is the directory of the model; give another one");
  else
    try {
      interop::check_kept_place(run);
      if (!list_steps(run).empty())
        problems.add("--output ", run, ": has steps already; import into another directory");
    } catch (const Error& error) {
      problems.add("--output ", run, ": ", error.what());
    }
}

int import(int argc, char** argv) {
  std::string directory, output;
  interop::ModelFiles model;
  Index threads = default_threads();
  CommandLine command("trireme hf import",
                      "Writes a Hugging Face model (config.json and *.safetensors) as step 0 of a "
                      "run, in fp32 and with checksums. train_gpt begins with it by --load RUN "
                      "--finetune --use-checkpoint-args.");
  command.positional("DIR", directory, "directory of the model");
  command.text("--output", output, "RUN", "directory of the run to write; it has no step yet");
  declare_threads(command, threads);
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (output.empty()) problems.add("--output is missing: the directory of the run to write");
        check_run_to_write(output, directory, problems);
        if (!problems.empty()) return;
        try {
          model = interop::open_model(directory);
        } catch (const Error& error) {
          problems.add_lines("", error.what());
        }
      },
      [&] {
        Progress progress(output);
        interop::ImportOptions options;
        options.threads = static_cast<int>(threads);
        options.progress = [&](Index done, Index total) { progress.show(done, total); };
        Manifest head = head_of(model);
        const std::string note = add_tokenizer(model.files.path, head);
        interop::import_model(model, output, head, options);
        std::cout << output << ": step 0, " << model.config.model.describe() << '\n';
        if (!note.empty()) std::cout << "  note: " << note << '\n';
        return ExitCode::success;
      });
}

std::string without_slashes_at_the_end(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// The directory of the run of a step, also where the step is "." or ends with a slash.
std::string run_of(const OpenedStep& step) {
  const auto whole = std::filesystem::absolute(step.directory).lexically_normal().string();
  return std::filesystem::path(without_slashes_at_the_end(whole)).parent_path().string();
}

ExitCode write_model_of(const OpenedStep& step, const TransformerConfig& model,
                        const std::string& output, Index threads, interop::ExportOptions& options) {
  Progress progress(output);
  options.threads = static_cast<int>(threads);
  options.files.progress = [&](Index done, Index total) { progress.show(done, total); };
  Index bad = 0;
  std::string first;
  options.files.not_finite = [&](const std::string& tensor, float number) {
    if (++bad == 1) first = str(tensor, " has the value ", number);
  };
  interop::export_model(step, run_of(step), model, output, options);
  std::cout << output << ": step " << step.manifest.step << " as " << name(options.files.element)
            << ", " << model.describe() << '\n';
  if (bad > 0)
    std::cerr << "trireme: warning: " << bad << (bad == 1 ? " tensor has" : " tensors have")
              << " numbers that are infinite or none: " << first << '\n';
  if (!interop::has_tokenizer(output))
    std::cout << output << ": " << advice_without_tokenizer(step) << '\n';
  return ExitCode::success;
}

int export_directory(int argc, char** argv) {
  std::string run, output, tokenizer;
  Index threads = default_threads();
  interop::ExportOptions options;
  options.files.max_file_bytes = Index{5} << 30;
  CommandLine command("trireme hf export",
                      "Writes a step of a run as a Hugging Face model: config.json, *.safetensors, "
                      "and the tokenizer of the model that the run began with, or --tokenizer. The "
                      "directory appears whole, or not at all.");
  command.positional("RUN", run, "directory of a run (its newest step), RUN:STEP, or of a step");
  command.text("--output", output, "DIR", "directory to write; it must not exist");
  declare_dtype(command, options.files.element);
  command.size("--max-shard-size", options.files.max_file_bytes, 1,
               "largest safetensors file, such as 5G; a larger tensor has a file of its own");
  command.text("--tokenizer", tokenizer, "PATH",
               "directory of the tokenizer of the run's data, or the tokenizer.json in it: its "
               "files are copied");
  declare_threads(command, threads);
  OpenedStep step;
  TransformerConfig model;
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (output.empty()) problems.add("--output is missing: the directory to write");
        output = without_slashes_at_the_end(output);
        options::check_directory("--output", output, problems);
        std::error_code missing;
        if (problems.empty() && std::filesystem::exists(output, missing))
          problems.add("--output ", output, ": exists already; remove it, or give another name");
        open_input(problems, [&] {
          step = step_at(run);
          model = model_of(step.manifest.options);
          if (!tokenizer.empty())
            options.tokenizer = tokenizer_for(tokenizer, step, run_of(step), model.vocab_size);
        });
      },
      [&] { return write_model_of(step, model, output, threads, options); });
}

}  // namespace

std::vector<Subcommand> hf_transfer_commands() {
  return {
      {{"hf", "import"},
       "DIR --output RUN",
       "write a Hugging Face model as step 0 of a run",
       import},
      {{"hf", "export"},
       "RUN[:STEP] --output DIR [--tokenizer PATH]",
       "write a step as a Hugging Face model",
       export_directory},
  };
}

}  // namespace trireme
