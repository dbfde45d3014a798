// trireme plan: the fastest layout of a model on a cluster, before there are ranks.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/core/error.h"
#include "trireme/options/problems.h"

#include "launch/commands.h"
#include "launch/plan_trials.h"
#include "launch/program_of_trireme.h"
#include "launch/supervisor/decide/command_words.h"
#include "launch/verify/run_job.h"
#include "runtime/core/process/child.h"
#include "runtime/interop/hf_config.h"
#include "runtime/interop/model_files.h"
#include "runtime/layouts/report/preset_report.h"
#include "runtime/layouts/report/report.h"
#include "runtime/layouts/search/cluster.h"
#include "runtime/layouts/unequal/unequal_answer.h"
#include "runtime/options/check_options.h"
#include "runtime/options/option_values.h"

namespace trireme::calibrate {
namespace {

/// Starts trireme_calibrate under mpirun.
struct Request {
  std::string file;  // of the profile
  Index ranks = 1;
  std::vector<std::string> mpirun = {"mpirun"};  // and options for it
  std::vector<std::string> options;              // of train_gpt: the model, threads, the device
};
/// Writes the profile. `take_line`: gets each line of its progress, at once. Throws:
/// ConfigurationError where the options are wrong, Error where it fails, verify::Interrupted.
void calibrate(const Request& request, const EndSignals& signals,
               const std::function<void(std::string_view)>& take_line);

/// Whether a line that such a job prints is of its progress: "  12 s  attention: ...".
bool is_progress(std::string_view line);

bool is_progress(std::string_view line) {
  const std::size_t digits = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t behind = line.find_first_not_of("0123456789", digits);
  return behind != digits && behind != std::string_view::npos &&
         line.substr(behind).starts_with(" s  ");
}

void calibrate(const Request& request, const EndSignals& signals,
               const std::function<void(std::string_view)>& take_line) {
  constexpr double limit_s = 300;  // it takes less than 60 where nothing else runs
  std::vector<std::string> words = request.mpirun;
  words.insert(words.end(), {"-np", str(request.ranks), program_of_trireme("trireme_calibrate")});
  words.insert(words.end(), request.options.begin(), request.options.end());
  words.insert(words.end(), {"--profile", std::filesystem::absolute(request.file).string(),
                             "--micro-batch-size", "1", "--global-batch-size", str(request.ranks)});
  const ChildEnd end = verify::run_job(words, limit_s, signals, [&](std::string_view line) {
    if (is_progress(line)) take_line(line);  // others are of mpirun, or a reason to fail
  });
  require(end.why != ChildEnd::Why::late, "the calibration did not end within ", limit_s, " s:\n",
          verify::reason_in(end.output));
  if (end.code() == static_cast<int>(ExitCode::configuration))
    throw ConfigurationError(verify::reason_in(end.output));
  require(end.code() == 0, "the calibration has failed:\n", verify::reason_in(end.output));
}

}  // namespace
}  // namespace trireme::calibrate

namespace trireme {
namespace {

using namespace cost;
using namespace layouts;

struct PlanArguments {
  std::string model, config, hf, cluster, explain, calibrate, mpirun = "mpirun";
  std::vector<std::string> prices, pins;
  Index batch = 0, length = 0, ranks = 0, tries = 0;
  double tokens = 0, margin = SearchAim().margin;
  bool json = false;
};

void declare_tokens(CommandLine& command, double& tokens) {
  const Real legal{0, std::numeric_limits<double>::infinity(), true, true};
  command.add({"--tokens", "X",
               "tokens to train on, such as 10B or 1.5T: adds the time and the energy that it "
               "takes, and with a price the cost",
               false,
               [&tokens, legal](const std::vector<std::string>& words) {
                 tokens = options::parse_quantity(words.front(), legal);
               },
               [&tokens] { return tokens > 0 ? options::show_real(tokens) : ""; }});
}

void declare(CommandLine& command, PlanArguments& words) {
  command.text(
      "--model", words.model, "PRESET",
      "preset of train_gpt, such as llama-8b; without a model a table of the presets that fit");
  command.text(
      "--model-config", words.config, "FILE",
      "TOML file of train_gpt (--config); a layout's options that it has stay as they are");
  command.text("--hf", words.hf, "DIR",
               "directory of a Hugging Face model, of which only config.json is read");
  command.text("--cluster", words.cluster, "TEXT|FILE",
               "8x8xH100-80 (nodes, GPUs of a node, GPU), 8xH100-80, or a file of JSON; for GPU "
               "also the file of a profile, as --calibrate writes it: 4xcpu.json");
  command.whole("--global-batch-size", words.batch, at_least(1),
                "samples of one step over all ranks, not tokens; default: that of --model-config");
  command.whole("--seq-length", words.length, at_least(1),
                "tokens of a sample; with --hf it has to be given, as in training");
  declare_tokens(command, words.tokens);
  command.list("--price", words.prices, "[GPU=]AMOUNT...",
               "price of a GPU for an hour, such as 2.5 or H100=2.5");
  command.real("--memory-margin", words.margin, {0, 1, false, true},
               "share of each GPU's memory that stays free");
  command.list("--pin", words.pins, "WORD=VALUE...",
               "only layouts with these: tp, pp, v, dp, mb, recompute, zero, sp, chunks, schedule");
  command.text("--explain", words.explain, "LAYOUT",
               "one layout such as \"tp 8 pp 2\", part by part, beside the chosen one");
  command.flag("--json", words.json, "print one line of JSON instead of text");
  command.text("--calibrate", words.calibrate, "FILE",
               "plan nothing, but measure this machine, with all --ranks at once, and write its "
               "profile; with a model also the products of it; the parts share 50 s");
  command.writes("--calibrate");
  command.whole("--ranks,-n", words.ranks, at_least(1), "of --calibrate: as many as a job has");
  constexpr Index most_tries = 32;
  command.whole("--try", words.tries, {0, most_tries},
                "run so many of the best layouts for five steps each, here, and choose by what was "
                "measured");
  command.text("--mpirun", words.mpirun, "WORDS",
               "of --calibrate and --try: mpirun, and options for it");
}

/// The options of train_gpt that the task is made of, without numbers that were refused.
std::vector<std::string> training_words(const CommandLine& command, const PlanArguments& words) {
  std::vector<std::string> all;
  if (command.given("--model-config")) all = {"--config", words.config};
  if (command.given("--model")) all.insert(all.end(), {"--model", words.model});
  if (!words.hf.empty()) all.insert(all.end(), {"--load-hf", words.hf});
  if (words.length > 0) all.insert(all.end(), {"--seq-length", std::to_string(words.length)});
  if (words.batch > 0) all.insert(all.end(), {"--global-batch-size", std::to_string(words.batch)});
  return all;
}

/// Names of the options here, for those of train_gpt.
std::string with_own_names(std::string problem) {
  const std::pair<std::string, std::string> names[] = {{"--config ", "--model-config "},
                                                       {"--load-hf", "--hf"}};
  for (const auto& [name, own] : names)
    if (const std::size_t found = problem.find(name); found != std::string::npos)
      problem.replace(found, name.size(), own);
  return problem;
}

/// Of --hf; without one the words say what the model is.
struct HfModel {
  ModelOfFiles files;
  std::optional<interop::HfConfig> config;
};

/// What is wrong with it is added to `problems`.
HfModel read_hf(const std::string& directory, Problems& problems) {
  HfModel model;
  model.files.origin = (std::filesystem::path(directory) / "config.json").string();
  model.files.option = "--load-hf";
  try {
    const std::string why = interop::why_no_model(directory);
    require(why.empty(), why);
    model.config = interop::read_hf_config(model.files.origin);
    model.files.options = options_of(model.config->model);
  } catch (const Error& error) {
    problems.add_lines("--hf ", error.what());
  }
  return model;
}

/// The file of --model-config may name another model than the words do.
void check_model_of_config(const CommandLine& command, const PlanArguments& words,
                           const TrainingTask& task, Problems& problems) {
  if (!command.given("--hf") && task.given("--load-hf"))
    problems.add("--model-config ", words.config,
                 ": load-hf is not read for a plan; give its directory by --hf as well");
  if (command.given("--hf") && !command.given("--model") && task.given("--model"))
    problems.add("--model-config ", words.config, ": model beside --hf ", words.hf,
                 ", which says what the model is; leave one of the two out");
}

/// As many steps as the tokens take.
void add_steps(const TrainingTask& task, Question& question) {
  if (question.tokens == 0 || task.given("--train-iters")) return;
  const double steps = std::ceil(question.tokens / static_cast<double>(task.tokens_per_step()));
  if (steps <= static_cast<double>(most_count))
    question.words.insert(question.words.end(),
                          {"--train-iters", std::to_string(static_cast<Index>(steps))});
}

bool has_model(const CommandLine& command) {
  return command.given("--model") || command.given("--model-config") || command.given("--hf");
}

Question make_question(const CommandLine& command, const PlanArguments& words, Problems& problems) {
  Question question;
  question.words = training_words(command, words);
  question.tokens = words.tokens;
  question.aim.margin = words.margin;
  question.aim.best = std::max(question.aim.best, static_cast<int>(words.tries));
  if (command.given("--model") && command.given("--hf"))
    problems.add("--model ", words.model, " beside --hf ", words.hf,
                 ", which says what the model is; leave one of the two out");
  const auto read = [&](const char* option, const std::string& value, const auto& f) {
    try {
      f();
    } catch (const Error& error) {
      problems.add(option, " ", value, ": ", error.what());
    }
  };
  if (!command.given("--cluster"))
    problems.add(
        "--cluster is missing: nodes x GPUs of a node x type of GPU, such as 8x8xH100-80; "
        "8xH100-80 is one node",
        has_model(command) ? "" : ". Without --model it prints which presets fit");
  else
    read("--cluster", words.cluster, [&] { question.cluster = read_cluster(words.cluster); });
  if (!question.cluster.groups.empty())
    for (const std::string& price : words.prices)
      read("--price", price, [&] { set_price(question.cluster, price); });
  for (const std::string& pin : words.pins)
    read("--pin", pin, [&] { question.aim.pins = parse_pins(pin, question.aim.pins); });
  if (command.given("--explain"))
    read("--explain", words.explain, [&] { question.explain = parse_pins(words.explain); });
  return question;
}

/// Of all presets, where no model is given.
void check_presets(const CommandLine& command, const Question& question, Problems& problems) {
  constexpr const char* asks = "--model PRESET, --model-config FILE or --hf DIR is missing: ";
  if (question.cluster.groups.size() > 1)
    problems.add(asks, "without it presets are compared on GPUs of one type, and --cluster has ",
                 question.cluster.groups.size(), " groups");
  for (const char* option : {"--explain", "--try"})
    if (command.given(option)) problems.add(asks, option, " is for layouts of one model");
}

ExitCode plan_all_presets(const Question& question, const PlanArguments& words) {
  const std::vector<PresetPlan> plans = plan_presets(question, words.batch, words.length);
  std::cout << (words.json ? to_text(to_json(question, plans)) + '\n' : report(question, plans));
  const bool fits =
      std::any_of(plans.begin(), plans.end(), [](const PresetPlan& each) { return each.fits(); });
  return fits ? ExitCode::success : ExitCode::configuration;
}

ExitCode plan_unequal(const TrainingTask& task, const Question& question, bool json) {
  const UnequalResult found = search_unequal(task, question.cluster, question.aim);
  std::cout << (json ? to_text(to_json(task, question, found)) + '\n'
                     : report(task, question, found));
  return found.launched >= 0 ? ExitCode::success : ExitCode::configuration;
}

bool plans_for_cpus(const Question& question) {
  return !question.cluster.groups.empty() && question.cluster.groups.front().profile.is_cpu();
}

void check_mpirun(const PlanArguments& words, Problems& problems) {
  const std::vector<std::string> mpirun = supervisor::words_in(words.mpirun);
  if (mpirun.empty() || !is_executable(mpirun.front()))
    problems.add("--mpirun '", words.mpirun, "': there is no such program");
}

/// `more`: behind --, of train_gpt.
void check_calibration(const CommandLine& command, const PlanArguments& words,
                       const std::vector<std::string>& more, calibrate::Request& request,
                       Problems& problems) {
  request.file = words.calibrate;
  request.ranks = words.ranks;
  request.mpirun = supervisor::words_in(words.mpirun);
  request.options = training_words(command, words);
  request.options.insert(request.options.end(), more.begin(), more.end());
  options::check_output("--calibrate", words.calibrate, outputs::device_profile, problems);
  if (!command.given("--ranks"))
    problems.add("--ranks is missing: --calibrate measures with as many as a job will have");
  check_mpirun(words, problems);
  for (const char* option : {"--hf", "--cluster", "--seq-length", "--global-batch-size", "--tokens",
                             "--price", "--pin", "--explain", "--json", "--memory-margin", "--try"})
    if (command.given(option))
      problems.add(option, " does not go with --calibrate, which plans nothing");
}

/// Options of jobs, which a plan starts only to try layouts.
void check_jobs(const CommandLine& command, const PlanArguments& words, Problems& problems) {
  if (command.given("--ranks"))
    problems.add("--ranks ", words.ranks,
                 " goes with --calibrate only; --cluster says how many ranks there are");
  if (command.given("--mpirun") && words.tries == 0)
    problems.add("--mpirun goes with --calibrate or --try, which are missing");
  if (command.given("--explain") && words.tries > 0)
    problems.add("--try ", words.tries, " does not go with --explain, which shows one layout");
  if (words.tries > 0) check_mpirun(words, problems);
}

/// What starts jobs: their failures, and signals, end with an exit code.
ExitCode run_jobs(const std::function<void(const EndSignals&)>& f) {
  constexpr int exit_of_signals = 128;
  EndSignals signals;
  try {
    f(signals);
    return ExitCode::success;
  } catch (const verify::Interrupted&) {
    return static_cast<ExitCode>(exit_of_signals + signals.take());
  } catch (const ConfigurationError& error) {
    std::cerr << "trireme plan: " << error.what() << '\n';
    return ExitCode::configuration;
  } catch (const Error& error) {
    std::cerr << "trireme plan: " << error.what() << '\n';
    return ExitCode::failure;
  }
}

ExitCode calibrate_now(const calibrate::Request& request) {
  std::cerr << "trireme plan: measuring with " << request.ranks
            << (request.ranks == 1 ? " rank" : " ranks") << "; each part is shown when it ends\n";
  return run_jobs([&](const EndSignals& signals) {
    calibrate::calibrate(request, signals,
                         [](std::string_view line) { std::cout << line << std::endl; });
  });
}

void warn(const Question& question) {
  for (const GpuGroup& group : question.cluster.groups)
    for (const std::string& doubt :
         calibration_doubts(group, group.profile.is_cpu() ? name_of_this_cpu() : ""))
      std::cerr << "trireme plan: warning: " << doubt << '\n';
}

ExitCode plan_now(const TrainingTask& task, const Question& question, const PlanArguments& words) {
  warn(question);
  if (question.cluster.groups.size() > 1) return plan_unequal(task, question, words.json);
  Answer found = answer(task, question);
  if (words.tries > 0 && question.explain.empty() && found.fits()) {
    const Trials trials{static_cast<std::size_t>(words.tries), supervisor::words_in(words.mpirun)};
    const ExitCode tried = run_jobs(
        [&](const EndSignals& signals) { try_layouts(task, question, trials, signals, found); });
    if (tried != ExitCode::success) return tried;
  }
  if (words.json)
    std::cout << to_text(to_json(task, question, found)) << '\n';
  else
    std::cout << report(task, question, found);
  const bool made = question.explain.empty() ? found.fits() : found.explained.has_value();
  return made ? ExitCode::success : ExitCode::configuration;
}

int plan(int argc, char** argv) {
  int own = 0;
  while (own < argc && std::string(argv[own]) != "--") ++own;
  const std::vector<std::string> more(argv + std::min(own + 1, argc), argv + argc);
  PlanArguments words;
  CommandLine command(
      "trireme plan",
      "Finds the fastest layout of a model on a cluster that fits its memory, with what it costs, "
      "and prints the command line that trains so. Exit code 64 where none fits.");
  declare(command, words);
  Question question;
  calibrate::Request calibration;
  std::unique_ptr<TrainingTask> task;
  return parse_and_run(
      command, own, argv,
      [&](Problems& problems) {
        if (command.given("--calibrate"))
          return check_calibration(command, words, more, calibration, problems);
        check_jobs(command, words, problems);
        if (!more.empty())
          problems.add(
              "words behind -- are options of train_gpt for --calibrate, which is missing");
        question = make_question(command, words, problems);
        if (!has_model(command)) return check_presets(command, question, problems);
        HfModel model;
        if (!words.hf.empty() && !command.given("--model")) model = read_hf(words.hf, problems);
        Problems of_task;
        task = std::make_unique<TrainingTask>(question.words, of_task, !plans_for_cpus(question),
                                              model.files);
        for (const std::string& problem : of_task.all()) problems.add(with_own_names(problem));
        if (model.config && !command.is_uncertain("--seq-length"))
          for (const std::string& problem : interop::training_length_problems(
                   *model.config, "--hf " + words.hf,
                   task->given("--seq-length") ? task->model().seq_length : 0))
            problems.add(problem);
        check_model_of_config(command, words, *task, problems);
        if (!command.given("--global-batch-size") && !task->given("--global-batch-size"))
          problems.add("--global-batch-size is missing: the samples of one step");
        if (!problems.empty()) return;
        std::vector<std::string> contradicted;
        question.aim.pins = task->pins_with(question.aim.pins, contradicted);
        for (const std::string& option : contradicted)
          problems.add("--pin contradicts ", option, " of --model-config; leave one out");
        if (question.cluster.groups.size() > 1)
          if (const std::string problem = unequal_problem(*task, question); !problem.empty())
            problems.add("--cluster ", words.cluster, " ", problem);
        if (question.cluster.groups.size() > 1 && words.tries > 0)
          problems.add("--try ", words.tries, ": layouts over several types of GPUs are not tried");
        add_steps(*task, question);
      },
      [&] {
        if (command.given("--calibrate")) return calibrate_now(calibration);
        if (!has_model(command)) {
          warn(question);
          return plan_all_presets(question, words);
        }
        return plan_now(*task, question, words);
      });
}

}  // namespace

std::vector<Subcommand> plan_commands() {
  return {{{"plan"},
           "--model PRESET --cluster 8x8xH100-80 --global-batch-size N [options]",
           "the fastest layout that fits, its time and cost, and the command line to paste",
           plan}};
}

}  // namespace trireme
