// trireme hf show: what a Hugging Face model is in options of trireme, and what is not understood.
#include <filesystem>
#include <iostream>

#include "trireme/options/gpt_options.h"

#include "launch/commands.h"
#include "runtime/core/json/json.h"
#include "runtime/core/show_bytes.h"
#include "runtime/core/text/one_line.h"
#include "runtime/interop/hf_config.h"
#include "runtime/interop/hf_files.h"
#include "runtime/interop/model_files.h"
#include "runtime/interop/names.h"

namespace trireme {
namespace {

using interop::HfFile;

struct Shown {
  std::string path;
  interop::HfConfig config;
  KeyValues options;             // that differ from the defaults
  safetensors::Directory files;  // empty: not read
  std::vector<std::string> kept, code;
  std::vector<std::string> problems;  // that keep it from being trained
};

/// The options of the model as train_gpt takes them.
KeyValues changed_options(const TransformerConfig& model) {
  Options options;
  GptOptions gpt;
  CommandLine command("", "");
  declare_options(command, options);
  declare_gpt_options(command, options, gpt);
  gpt.model = TransformerConfig{};
  const KeyValues usual = command.configuration();
  gpt.model = model;
  const KeyValues all = command.configuration();
  KeyValues different;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != usual[i]) different.push_back(all[i]);
  return different;
}

std::string words_of(const KeyValues& options) {
  std::string all;
  for (const auto& [name, value] : options)
    all += (all.empty() ? "" : " ") + name +
           (value == "true"    ? ""
            : value == "false" ? "=false"
                               : " " + value);
  return all;
}

void read_config(Shown& shown) {
  const std::string file = std::filesystem::path(shown.path) / "config.json";
  std::vector<std::string> problems;
  try {
    shown.config = interop::parse_hf_config(interop::hf_config_text(file), problems);
  } catch (const Error& error) {
    shown.problems.emplace_back(error.what());
  }
  for (const std::string& problem : problems) shown.problems.push_back(str(file, ": ", problem));
  if (shown.problems.empty()) shown.options = changed_options(shown.config.model);
}

/// The headers of the weights; their names only where the model is known.
void read_tensors(Shown& shown) {
  try {
    shown.files = safetensors::open_directory(shown.path);
    if (!shown.problems.empty()) return;
    auto views = interop::hf_views(shown.config.model_type, shown.config.model);
    for (const std::string& problem : interop::fit(views, shown.files, shown.config.notes))
      shown.problems.push_back(shown.path + ": " + problem);
  } catch (const Error& error) {
    shown.problems.emplace_back(error.what());
  }
}

Shown read(const std::string& path) {
  Shown shown;
  shown.path = path;
  shown.kept = interop::files_of_kind(path, HfFile::kept);
  shown.code = interop::files_of_kind(path, HfFile::code);
  read_config(shown);
  const bool has_config = shown.problems.empty();
  interop::note_tokenizer_code(path, shown.config);
  read_tensors(shown);
  for (const std::string& problem : interop::problems_of_kept_files(path))
    if (has_config || !problem.starts_with("config.json"))
      shown.problems.push_back(str(path, ": ", problem));
  return shown;
}

std::string listed(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

void print_list(const char* title, const std::vector<std::string>& words) {
  if (!words.empty()) std::cout << "  " << title << ": " << listed(words) << '\n';
}

void print(const Shown& shown) {
  const interop::HfConfig& config = shown.config;
  std::cout << one_line(shown.path) << '\n';
  if (!shown.options.empty())
    std::cout << "  " << config.model_type << ": " << config.model.describe() << '\n'
              << "  options: " << words_of(shown.options) << '\n';
  if (config.max_positions > 0)
    std::cout << "  --seq-length: at most " << config.max_positions << ", its positions\n";
  for (const interop::LengthLimit& limit : config.limits)
    std::cout << "  --seq-length: at most " << limit.tokens << ", because " << limit.reason << '\n';
  if (!shown.files.tensors.empty())
    std::cout << "  weights: " << shown.files.tensors.size() << " tensors in "
              << shown.files.files.size()
              << (shown.files.files.size() == 1 ? " file, " : " files, ")
              << show_bytes(shown.files.bytes()) << '\n';
  print_list("kept beside a run", shown.kept);
  print_list("code, never run", shown.code);
  print_list("keys not used", config.not_used);
  for (const std::string& note : config.notes) std::cout << "  note: " << note << '\n';
}

Json array(const std::vector<std::string>& words) {
  return Json::Array(words.begin(), words.end());
}

/// Of the names that docs/reference/commands.md explains.
Json to_json(const Shown& shown) {
  const interop::HfConfig& config = shown.config;
  Json::Object options;
  for (const auto& [name, value] : shown.options) options.emplace_back(name, value);
  Json::Array limits;
  for (const interop::LengthLimit& limit : config.limits)
    limits.emplace_back(Json::Object{{"tokens", limit.tokens}, {"reason", limit.reason}});
  return Json::Object{{"directory", shown.path},
                      {"model_type", config.model_type},
                      {"parameters", shown.options.empty() ? 0 : config.model.parameter_count()},
                      {"dtype", config.dtype},
                      {"max_positions", config.max_positions},
                      {"options", std::move(options)},
                      {"limits", std::move(limits)},
                      {"tensors", static_cast<Index>(shown.files.tensors.size())},
                      {"files", array(shown.files.files)},
                      {"bytes", shown.files.bytes()},
                      {"kept", array(shown.kept)},
                      {"code", array(shown.code)},
                      {"not_used", array(config.not_used)},
                      {"notes", array(config.notes)},
                      {"problems", array(shown.problems)}};
}

int hf_show(int argc, char** argv) {
  std::string directory;
  bool json = false;
  CommandLine command("trireme hf show",
                      "Prints the options that make a Hugging Face model in train_gpt, its "
                      "tensors, and what is not used. Exit code 64 if it cannot be trained, with "
                      "everything that is not understood.");
  command.positional("DIR", directory, "directory of a model: config.json and *.safetensors");
  command.flag("--json", json, "print one line of JSON instead of text");
  return parse_and_run(
      command, argc, argv,
      [&](Problems& problems) {
        if (!problems.empty()) return;
        if (const std::string why = interop::why_no_model(directory); !why.empty())
          problems.add(why);
      },
      [&] {
        const Shown shown = read(directory);
        if (json)
          std::cout << to_text(to_json(shown)) << '\n';
        else
          print(shown);
        std::cout << std::flush;
        for (const std::string& problem : shown.problems)
          std::cerr << "trireme: " << problem << '\n';
        return shown.problems.empty() ? ExitCode::success : ExitCode::configuration;
      });
}

}  // namespace

std::vector<Subcommand> hf_show_commands() {
  return {{{"hf", "show"}, "DIR [--json]", "show a Hugging Face model as options", hf_show}};
}

}  // namespace trireme
