#include "launch/supervisor/decide/command_words.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/options/config_file.h"
#include "runtime/options/known_options.h"

namespace trireme::supervisor {
namespace {

namespace fs = std::filesystem;

bool same_directory(const std::string& a, const std::string& b) {
  std::error_code unknown;
  return fs::weakly_canonical(a, unknown) == fs::weakly_canonical(b, unknown);
}

/// Adds "--mca KEY VALUE" unless the user has set KEY, on the command line or in the environment.
void add_setting(Words& words, const Words& of_user, const std::string& key,
                 const std::string& value) {
  for (const std::string& word : of_user)
    if (word == key) return;
  if (std::getenv(("OMPI_MCA_" + key).c_str()) != nullptr) return;
  words.insert(words.end(), {"--mca", key, value});
}

enum class Value { text, number };

/// The value of an option of the program, which may be in its file of options. Mistakes in the file
/// are the program's to report.
std::string option_or_config(const Words& words, const std::string& key, Value kind = Value::text) {
  std::string value = option_of(words, "--" + key);
  const std::string config = option_of(words, "--config");
  std::error_code unknown;
  if (!value.empty() || !fs::is_regular_file(config, unknown)) return value;
  std::ifstream file(config, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const options::ConfigLine& line : options::read_config(text))
    if (line.key == key && line.quoted == (kind == Value::text) && line.values.size() == 1)
      value = line.values.front();
  return value;
}

/// `auto` stays where saves are by time: the program takes it beside --save-interval-seconds.
Words with_saves(const Words& words, const Job& job, const SaveRule& saves) {
  if (saves.steps > 0)
    return with_options_of(words, {"--save-interval", std::to_string(saves.steps)});
  if (!job.save_seconds.empty()) return words;
  return with_options_of(words, {"--save-interval-seconds", fmt::format("{:g}", saves.seconds)});
}

}  // namespace

Words words_in(const std::string& text) {
  Words words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string option_of(const Words& words, const std::string& name) {
  std::string value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == name && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with(name + "=")) value = words[i].substr(name.size() + 1);
  }
  return value;
}

double parse_duration(const std::string& text) {
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                        : unit == "d"               ? 86400
                                                    : 0;
  constexpr double most = 1e9;
  require(used > 0 && factor > 0 && number > 0 && number < most,
          "expected a time greater than 0, such as 90, 30m, 12h or 2d");
  return number * factor;
}

std::string Job::name() const { return fs::path(words.front()).filename().string(); }

Job make_job(const Words& words, const std::string& run_dir) {
  Job job{words,
          option_or_config(words, "save"),
          true,
          "",
          option_or_config(words, "train-iters", Value::number),
          option_or_config(words, "check-replicas", Value::number) != "0",
          option_or_config(words, "save-interval") == "auto",
          option_or_config(words, "save-interval-seconds", Value::number),
          !option_or_config(words, "save-memory-interval", Value::number).empty()};
  const std::string steps = option_or_config(words, "save-interval", Value::number);
  job.saves_between =
      job.auto_saves || !job.save_seconds.empty() || (!steps.empty() && steps != "0");
  const std::string retained = option_or_config(words, "save-retain-interval", Value::number);
  require(!job.auto_saves || retained.empty(), "--save-retain-interval ", retained,
          " keeps multiples of a step, which --save-interval auto does not make sure to save; give "
          "--save-interval a number of steps, or leave --save-retain-interval out");
  require(job.run.empty() || run_dir.empty() || same_directory(job.run, run_dir), "--run-dir ",
          run_dir, " is not the --save of the program, ", job.run, ": leave --run-dir out");
  if (job.run.empty()) {
    require(!run_dir.empty(),
            "the program has no --save DIR, and --run-dir DIR is not given: one of them says where "
            "the run lies");
    job.run = run_dir;
    // In a file of options the program may save there.
    job.watched = !option_of(words, "--config").empty();
  }
  if (!job.watched) return job;
  job.metrics = option_or_config(words, "metrics");
  if (job.metrics.empty()) job.metrics = (fs::path(job.run) / "metrics.jsonl").string();
  return job;
}

Words with_options_of(const Words& words, const Words& options) {
  const KnownOptions known;
  Words all = known.without(words, [&](const std::string& name) {
    const OptionDefinition* option = known.find(name);
    return std::any_of(options.begin(), options.end(), [&](const std::string& word) {
      return word.starts_with("--") &&
             (name_in(word) == name || (option != nullptr && option->is_called(name_in(word))));
    });
  });
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

void check_layout_options(const Words& options) {
  const KnownOptions known;
  for (const std::string& word : options)
    require(!known.has(name_in(word), OptionUse::run), "--also-layout \"",
            fmt::format("{}", fmt::join(options, " ")), "\": ", name_in(word),
            " is the same on every layout; give it to PROGRAM itself, after --");
}

Words words_of(const Job& job, const AttemptPlan& plan) {
  Words words = with_options_of(job.words, plan.options);
  if (!job.watched) return words;
  if (option_of(words, "--save").empty()) words.insert(words.end(), {"--save", job.run});
  if (job.auto_saves) words = with_saves(words, job, plan.saves);
  const std::string load = option_or_config(words, "load");
  const bool own = load.empty() || same_directory(load, job.run);
  bool loads = !load.empty();
  if (plan.resumes || (plan.has_saved && !own) || plan.step >= 0) {
    const KnownOptions known;
    words = known.without(
        words, [&](const std::string& name) { return known.has(name, OptionUse::start); });
    loads = false;
  }
  if (!loads) words.insert(words.end(), {"--load", job.run});
  if (plan.step >= 0) words.insert(words.end(), {"--ckpt-step", std::to_string(plan.step)});
  return words;
}

Words mpirun_words(const Launch& launch, const AttemptPlan& plan, const Words& program) {
  Words words = launch.mpirun;
  const auto set = [&](const std::string& key, const std::string& value) {
    add_setting(words, launch.mpirun, key, value);
  };
  set("odls_base_sigkill_timeout", "0");  // a failed job ends at once, not after a second
  set("orte_tmpdir_base", launch.scratch);
  if (plan.hosts.empty()) {
    set("btl_vader_backing_directory", launch.shared);
    set("osc_sm_backing_directory", launch.shared);
    set("pml", "ob1");  // starts in half of the time
    set("btl", "self,vader,tcp");
  } else {
    set("oob_tcp_keepalive_time", "2");  // notices a silent host in 6 s
    set("oob_tcp_keepalive_intvl", "1");
    set("oob_tcp_keepalive_probes", "3");
    if (!launch.remote_shell.empty()) set("plm_rsh_agent", launch.remote_shell);
    std::string hosts;
    for (const Host& host : plan.hosts)
      hosts +=
          str(hosts.empty() ? "" : ",", host.name, ':',
              plan.slots > 0 ? plan.slots : plan.ranks / static_cast<Index>(plan.hosts.size()));
    words.insert(words.end(), {"-H", hosts});
    for (const std::string& name : launch.exported) words.insert(words.end(), {"-x", name});
  }
  words.insert(words.end(), {"-np", std::to_string(plan.ranks)});
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

Words quick_start_variables(const AttemptPlan& plan) {
  if (!plan.hosts.empty() || std::getenv("HWLOC_COMPONENTS") != nullptr ||
      std::getenv("HWLOC_PLUGINS_PATH") != nullptr)
    return {};
  // Plugins are searched for in a directory, of which this is none.
  return {"HWLOC_COMPONENTS=-linuxio,-pci", "HWLOC_PLUGINS_PATH=/dev/null"};
}

}  // namespace trireme::supervisor
