#include "launch/verify/program_words.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/output.h"
#include "runtime/core/json/json.h"
#include "runtime/core/text/one_line.h"
#include "runtime/options/config_file.h"
#include "runtime/options/known_options.h"
#include "runtime/store/steps.h"

namespace trireme::verify {
namespace {

constexpr const char* save_buffer = "256M";  // a save may take its time, one rank's memory is short

using Names = std::function<bool(const std::string& name)>;

/// What jobs of verify do not get from the user: each has a directory of its own and makes two
/// steps, both of which are full updates. Throws: Error where an option cannot be left out.
Names left_out(const KnownOptions& known, const char* place) {
  return [&known, place](const std::string& name) {
    require(!known.has(name, OptionUse::model_files), name, place,
            ": verify begins with new values; give the model's options");
    require(!known.has(name, OptionUse::plan), name, place,
            ": verify proves one layout; give its options");
    return known.has(name, OptionUse::beside | OptionUse::steps);
  };
}

std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + '"';
}

std::string text_of(const options::ConfigLine& line) {
  std::string values;
  for (const std::string& value : line.values)
    values += (values.empty() ? "" : ", ") + (line.quoted ? quoted(value) : value);
  return line.key + " = " + (line.list ? "[" + values + "]" : values) + "\n";
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  require(in.good() || in.eof(), "--config ", path, ": cannot be read");
  return text;
}

/// The lines of a file of options but for those of which `leaves_out` holds. Returns the text as it
/// is when it has a mistake: the program reports it.
std::string config_without(const std::string& text, const Names& leaves_out) {
  std::string kept;
  for (const options::ConfigLine& line : options::read_config(text)) {
    if (!line.mistake.empty()) return text;
    if (!leaves_out("--" + line.key)) kept += text_of(line);
  }
  return kept;
}

/// Where --config is given, what is left of its file is written to `copy`.
Words with_config(const Words& words, const std::string& copy, const Names& leaves_out) {
  const std::string config = supervisor::option_of(words, "--config");
  if (config.empty()) return words;
  std::ifstream exists(config);
  if (!exists.good()) return words;  // the program says so
  std::ofstream out(copy, std::ios::binary);
  out << config_without(read_file(config), leaves_out);
  out.flush();
  require(out.good(), copy, ": cannot be written");
  return supervisor::with_options_of(words, {"--config", copy});
}

template <class T>
T member(const Json& json, const char* key) {
  const Json* found = json.find(key);
  const T* typed = found == nullptr ? nullptr : std::get_if<T>(&found->value);
  return typed == nullptr ? T() : *typed;
}

Facts facts_of(const Json& json) {
  Facts facts;
  facts.ranks = member<Index>(json, "ranks");
  facts.legal = member<bool>(json, "legal");
  for (const Json& problem : member<Json::Array>(json, "problems"))
    if (const auto* text = std::get_if<std::string>(&problem.value))
      facts.problems.push_back(*text);
  facts.data = member<Index>(json, "data");
  facts.pipeline = member<Index>(json, "pipeline");
  facts.tensor = member<Index>(json, "tensor");
  facts.rank_bytes = member<Index>(json, "rank_bytes");
  facts.state_bytes = member<Index>(json, "state_bytes");
  for (const auto& [name, value] : member<Json::Object>(json, "configuration"))
    if (const auto* text = std::get_if<std::string>(&value.value))
      facts.configuration[name] = *text;
  return facts;
}

}  // namespace

std::string Facts::option(const std::string& name) const {
  const auto found = configuration.find(name);
  return found == configuration.end() ? "" : found->second;
}

Index Facts::number(const std::string& name) const {
  const std::string text = option(name);
  Index value = 1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Facts facts_in(const std::string& printed, Index ranks) {
  std::istringstream in(printed);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("{\"ranks\":")) continue;  // something else that the program prints
    Facts facts = facts_of(parse_json(line));
    if (facts.ranks == ranks && (!facts.legal || facts.mesh().size() == ranks)) return facts;
  }
  constexpr std::size_t most = 600;
  throw Error(str("the program does not answer --check-layout ", ranks,
                  ", as those built on run() do", printed.empty() ? "" : ": ",
                  printed.substr(0, most)));
}

std::string plain_config(const std::string& text) {
  const KnownOptions known;
  return config_without(text, left_out(known, " in the file of --config"));
}

Words plain_words(const Words& words, const std::string& config) {
  const KnownOptions known;
  return with_config(known.without(words, left_out(known, "")), config,
                     left_out(known, " in the file of --config"));
}

Words without_options(const Words& words, const Words& names, const std::string& config) {
  const Names leaves_out = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return with_config(KnownOptions().without(words, leaves_out), config, leaves_out);
}

Words one_rank_words(const Words& words, const std::string& config) {
  const KnownOptions known;
  const Names leaves_out = [&](const std::string& name) {
    return known.has(name, OptionUse::shares);
  };
  return supervisor::with_options_of(
      with_config(known.without(words, leaves_out), config, leaves_out),
      {"--tensor-model-parallel-size", "1", "--pipeline-model-parallel-size", "1",
       "--num-virtual-stages-per-pipeline-rank", "1", "--schedule", "1f1b"});
}

Words words_of(const JobWords& job) {
  Words options = {"--train-iters",
                   str(steps),
                   "--lr-decay-style",
                   "constant",
                   "--lr-warmup-iters",
                   "0",
                   "--log-interval",
                   "1",
                   "--log-level",
                   "info",
                   "--check-replicas",
                   job.compares_replicas ? "1" : "0",
                   "--metrics",
                   metrics_in(job.folder),
                   "--save",
                   saved_in(job.folder),
                   "--save-interval",
                   "1",
                   "--no-async-save",
                   "--save-buffer",
                   save_buffer};
  if (job.load.empty())
    options.insert(options.end(), {"--dump-tensors", dump_in(job.folder)});
  else
    options.insert(options.end(), {"--load", saved_in(job.load), "--ckpt-step", "1"});
  return supervisor::with_options_of(job.program, options);
}

namespace {

std::string words_of_end(const std::string& output) {
  constexpr std::size_t most = 4000, last_lines = 6;
  supervisor::OutsideBoxes outside;
  std::istringstream in(outside.pass(output + "\n"));
  std::string own;
  std::vector<std::string> all;
  bool inside = false;  // of a message of several lines
  for (std::string line; std::getline(in, line);) {
    const bool begins = line.starts_with("trireme: ") || line.starts_with("trireme error: ") ||
                        line.starts_with("trireme[rank ");
    inside = begins || (inside && line.starts_with("  "));
    if (inside && own.size() < most) own += (own.empty() ? "" : "\n") + line;
    if (line.find_first_not_of(" -\n") != std::string::npos) all.push_back(line);
  }
  if (!own.empty()) return own;
  for (const std::string& first_line : outside.left_out())
    if (const std::string refusal = supervisor::refusal_in(first_line); !refusal.empty())
      return refusal;
  for (const std::string& line : all)
    if (const std::string refusal = supervisor::refusal_of(line); !refusal.empty()) return refusal;
  if (all.empty()) return "it printed nothing";
  std::string last;
  for (std::size_t i = all.size() - std::min(all.size(), last_lines); i < all.size(); ++i)
    last += (last.empty() ? "" : "\n") + all[i];
  return last;
}

}  // namespace

std::string reason_in(const std::string& output) { return printable(words_of_end(output)); }

std::string saved_in(const std::string& folder) { return folder + "/saved"; }
std::string step_in(const std::string& folder, Index step) {
  return saved_in(folder) + "/" + step_name(step);
}
std::string metrics_in(const std::string& folder) { return folder + "/metrics.jsonl"; }
std::string dump_in(const std::string& folder) { return folder + "/dump"; }

}  // namespace trireme::verify
