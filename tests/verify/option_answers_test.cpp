// What verify, the supervisor, the planner and the rest ask of each option of train_gpt, and the
// answer: tests/options/answers.txt. A new option has a row there, and none changes unseen.
#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

#include "trireme/options/gpt_options.h"
#include "trireme/train/layout_choice.h"

#include "launch/verify/program_words.h"
#include "runtime/checkpoint/identity.h"
#include "runtime/layouts/unequal/unequal_answer.h"
#include "runtime/options/check_options.h"
#include "runtime/train/layout/kept_layout.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme {
namespace {

using supervisor::Words;

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// An option as the page of options shows it.
struct Shown {
  std::string name;
  Words others;  // other names
  bool takes_value = false;
  std::string choice = "2";  // the last of those that there are
};

std::vector<Shown> all_options() {
  Options options;
  GptOptions gpt;
  std::string layouts;
  CommandLine command("train_gpt", "");
  declare_options(command, options);
  command.text("--check-layout", layouts, "N,N,...", "");  // as run() does
  declare_gpt_options(command, options, gpt);
  std::vector<Shown> all;
  const std::regex row("\\| `(--[a-z0-9-]+)( [^`]*?([^`,{]+)\\}|[^`]*)`(, `([^`]*)`)? \\|.*"),
      comma(",");
  std::istringstream page(command.reference());
  std::smatch found;
  for (std::string line; std::getline(page, line);) {
    if (!std::regex_match(line, found, row)) continue;
    const std::string others = found[5];
    Shown shown{found[1], {}, found[2].length() > 0};
    if (found[3].matched) shown.choice = found[3];
    if (!others.empty())
      shown.others = {std::sregex_token_iterator(others.begin(), others.end(), comma, -1), {}};
    all.push_back(shown);
  }
  EXPECT_EQ(all.size(), command.names().size());
  return all;
}

/// A job that gives one option some legal value, or none.
struct Job {
  Job() { declare(); }
  explicit Job(const Shown& option) {
    for (const char* each : {option.choice.c_str(), "2", "0.5", "64M", "tiny-llama", "/dev/null"})
      if (parses(option.takes_value ? Words{option.name, each} : Words{option.name})) return;
    ADD_FAILURE() << option.name << ": a legal value is missing here";
  }
  void declare() {
    options = {};
    gpt = {};
    command = std::make_unique<CommandLine>("train_gpt", "");
    declare_options(*command, options);
    command->text("--check-layout", layouts, "N,N,...", "");
    declare_gpt_options(*command, options, gpt);
  }
  bool parses(const Words& words) {
    declare();
    std::vector<const char*> argv{"train_gpt"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    Problems problems;
    command->parse(static_cast<int>(argv.size()), argv.data(), problems);
    return problems.empty();
  }

  Options options;
  GptOptions gpt;
  std::string layouts;
  std::unique_ptr<CommandLine> command;
};

/// "left out with 2 values", ...
std::string answer_of_verify(const Shown& option) {
  Words kept;
  const std::string refused = message_of([&] {
    kept = verify::plain_words({"p", option.name, "a", "b", "--own", "c"}, "");
  });
  if (!refused.empty()) return "refused" + refused.substr(refused.find(':'));
  const std::string key = option.name.substr(2), line = key + " = 1\n";
  const bool left_out = !has(kept, option.name);
  EXPECT_EQ(verify::plain_config(line).empty(), left_out) << option.name;
  return !left_out ? "" : has(kept, "a") ? "left out" : "left out with values";
}

std::string answer_of_one_rank(const Shown& option) {
  const Words words = verify::one_rank_words({"p", option.name, "a", "--own", "c"}, "");
  if (has(words, option.name) && has(words, "a")) return "";
  const std::string value = supervisor::option_of(words, option.name);
  return value.empty() ? "left out" : value;
}

std::string answer_of_also_layout(const Shown& option) {
  const auto check = [&] { supervisor::check_layout_options({"--own", option.name + "=1"}); };
  return message_of(check).empty() ? "" : "refused";
}

std::string answer_of_attempt(const Shown& option) {
  supervisor::Job job = supervisor::make_job({"p", "--save", "run"}, "");
  job.words = {"p", option.name};
  if (option.takes_value) job.words.emplace_back("a");
  supervisor::AttemptPlan plan;
  plan.resumes = true;
  const Words words = supervisor::words_of(job, plan);
  if (option.takes_value ? has(words, "a") : has(words, option.name)) return "";
  return has(words, option.name) ? "of the run" : "left out";
}

/// The other names that give way to the option, as its own does.
std::string answer_of_names(const Shown& option) {
  const auto with_value = [&](const std::string& name, const char* value) {
    return option.takes_value ? Words{name, value} : Words{name};
  };
  std::string all;
  const auto gives_way = [&](const std::string& name) {
    const Words expected = with_value(option.name, "b");
    return supervisor::with_options_of(with_value(name, "a"), expected) == expected;
  };
  EXPECT_TRUE(gives_way(option.name)) << option.name;
  for (const std::string& other : option.others)
    if (gives_way(other)) all += (all.empty() ? "" : " ") + other;
  return all;
}

/// The reason for which the option is idle when `change` has made a job of its options.
std::string idle_reason(Job& job, const std::function<void(Options&)>& change, Index ranks) {
  Options options = job.options;
  change(options);
  const std::string idle = idle_options(*job.command, options, ranks);
  const std::size_t begin = idle.find(" (");
  return begin == std::string::npos ? "" : idle.substr(begin + 2, idle.size() - begin - 3);
}

void set_mesh(Options& options, Index each) { options.tensor_size = options.pipeline_size = each; }

/// When it is idle, and why.
KeyValues answers_of_idle(Job& job) {
  const auto on_many = [](Options& o) { set_mesh(o, 2); };
  const auto on_one = [](Options& o) { set_mesh(o, 1); };
  const auto without_steps = [](Options& o) {
    set_mesh(o, 2);
    o.train_iters = 0;
    o.eval_interval = 5;
  };
  const auto forward = [](Options& o) { set_mesh(o, 2), o.forward_only = true; };
  const auto forward_on_one = [](Options& o) { set_mesh(o, 1), o.forward_only = true; };
  return {{"idle on 8 ranks", idle_reason(job, on_many, 8)},
          {"idle on 1 rank", idle_reason(job, on_one, 1)},
          {"idle without steps", idle_reason(job, without_steps, 8)},
          {"idle in forward passes", idle_reason(job, forward, 8)},
          {"idle in forward passes of 1 rank", idle_reason(job, forward_on_one, 1)}};
}

/// The word of a layout that the option sets.
std::string answer_of_pins(const Job& job) {
  const layouts::TrainingTask task(*job.command, job.options, job.gpt);
  std::vector<std::string> contradicted;
  const layouts::LayoutPins pins = task.pins_with({}, contradicted);
  std::string all;
  const auto add = [&](const char* word, bool set) { all += set ? word : ""; };
  add("tp", pins.tensor.has_value());
  add("pp", pins.pipeline.has_value());
  add("v", pins.chunks.has_value());
  add("dp", pins.data.has_value());
  add("mb", pins.micro_batch.has_value());
  add("zero", pins.sharded.has_value());
  add("sp", pins.sequence_parallel.has_value());
  add("chunks", pins.head_chunks.has_value());
  add("schedule", pins.schedule.has_value());
  add("recompute", pins.recompute.has_value());
  return all;
}

layouts::Layout unusual_layout() {
  layouts::Layout layout{2, 2, 2, 2, 2};
  layout.recompute = RecomputeGranularity::full;
  layout.schedule = ScheduleKind::zero_bubble_v;
  layout.sharded = layout.sequence_parallel = true;
  layout.head_chunks = 2;
  return layout;
}

/// The name by which `trireme plan` launches an unusual layout with the option.
std::string answer_of_launch(const Shown& option) {
  Problems problems;
  const layouts::TrainingTask task({"--model", "tiny"}, problems);
  const Words words = task.words_of(unusual_layout(), {{2, 1}, {2, 1}, {2, 1}});
  Words names = option.others;
  names.insert(names.begin(), option.name);
  for (const std::string& name : names)
    if (const auto at = std::find(words.begin(), words.end(), name); at != words.end())
      return name + (option.takes_value ? " " + *std::next(at) : "");
  return "";
}

std::string answer_of_unequal(const Job& job) {
  const layouts::TrainingTask task(*job.command, job.options, job.gpt);
  return layouts::unequal_problem(task, {}).empty() ? "" : "refused";
}

/// The options that --plan auto chooses, with their values for one layout.
std::map<std::string, std::string> chosen_layout() {
  Options options;
  GptOptions gpt;
  CommandLine command("train_gpt", "");
  declare_options(command, options);
  declare_gpt_options(command, options, gpt);
  std::vector<const char*> argv{
      "train_gpt",           "--model",        "tiny",    "--tp",       "2",    "--plan", "auto",
      "--sequence-parallel", "--plan-profile", "H100-80", "--schedule", "gpipe"};
  Problems problems;
  command.parse(static_cast<int>(argv.size()), argv.data(), problems);
  settle_gpt_options(command, options, gpt);
  LayoutChoice choice;
  const KeyValues values = choose_layout(command, options, gpt, {8, 8}, choice, problems);
  EXPECT_TRUE(problems.empty()) << testing::PrintToString(problems.all());
  return {values.begin(), values.end()};
}

/// The layout of a checkpoint of a job with these options, or what is wrong with it.
std::string kept_layout(const KeyValues& options) {
  const ScratchDirectory folder(ScratchDirectory::in_memory());
  const std::string root = folder / "run";
  Manifest manifest = test::write_toy(root, 7, {}, {test::ToyLayout::Cut::rows, 2});
  manifest.options = options;
  commit_step(root, manifest);
  CheckpointOptions load;
  load.load = root;
  return train::layout_of_checkpoint(load, 2)->problem;
}

std::string answer_of_kept(const Shown& option, const KeyValues& options) {
  KeyValues others = options;
  const auto is_it = [&](const auto& each) { return each.first == option.name; };
  return std::erase_if(others, is_it) == 0 || kept_layout(others).empty() ? "" : "needed";
}

std::string answer_of_differences(const Shown& option) {
  const bool listed =
      !checkpoint::option_differences({{option.name, "1"}}, {{option.name, "2"}}).empty();
  return listed ? "" : "no matter";
}

std::string answer_of_common(const Job& job, const Shown& option) {
  for (const auto& [name, value] : job.command->common())
    if (name == option.name) return "";
  return "may differ";
}

std::string answer_of_files(const Job& job, const Shown& option, bool written) {
  std::string all;
  for (const CommandLine::NamedFile& file : job.command->files())
    if (file.option == option.name && file.written == written)
      all += (all.empty() ? "" : " ") + file.path;
  return all;
}

std::string value_in(const CommandLine& command, const std::string& option) {
  for (const auto& [name, value] : command.configuration())
    if (name == option) return value;
  return "";
}

/// What --use-checkpoint-args does with it where it is not given, and where it is.
std::string answer_of_take(const Job& job, const Shown& option) {
  Job other;
  const std::string usual = value_in(*other.command, option.name),
                    value = value_in(*job.command, option.name), layers = "--num-layers";
  Problems none, contradictions;
  other.command->take({{option.name, value}, {layers, "4"}}, "origin", none);
  job.command->take({{option.name, usual.empty() ? "1" : usual}, {layers, "4"}}, "origin",
                    contradictions);
  const std::string mark = "\n    " + option.name.substr(2) + " " + value + "+";
  const bool taken = ("\n" + other.command->effective(1)).find(mark) != std::string::npos;
  return !taken ? "" : contradictions.empty() ? "taken" : "taken, and another value is refused";
}

std::string row(const Shown& option, const KeyValues& full_layout,
                const std::map<std::string, std::string>& chosen) {
  Job job(option);
  std::string text = option.name;
  const auto add = [&](const std::string& who, const std::string& answer) {
    if (!answer.empty()) text += str("\n  ", who, ": ", answer);
  };
  add("other names", answer_of_names(option));
  add("verify", answer_of_verify(option));
  add("verify on one rank", answer_of_one_rank(option));
  add("--also-layout", answer_of_also_layout(option));
  add("attempt after a save", answer_of_attempt(option));
  for (const auto& [when, reason] : answers_of_idle(job)) add(when, reason);
  add("word of a layout", answer_of_pins(job));
  add("launched by plan", answer_of_launch(option));
  add("plan of unequal nodes", answer_of_unequal(job));
  const auto found = chosen.find(option.name);
  add("chosen by --plan auto", found == chosen.end() ? "" : found->second);
  add("kept of a checkpoint", answer_of_kept(option, full_layout));
  add("differs from that of a checkpoint", answer_of_differences(option));
  add("ranks", answer_of_common(job, option));
  add("reads", answer_of_files(job, option, false));
  add("writes", answer_of_files(job, option, true));
  add("--use-checkpoint-args", answer_of_take(job, option));
  return text + '\n';
}

/// The rows of the table: a line that begins with a name, and those below it.
std::map<std::string, std::string> expected_rows() {
  std::ifstream file(TRIREME_SOURCE_DIR "/tests/options/answers.txt");
  std::map<std::string, std::string> rows;
  std::string name;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("--")) name = line;
    rows[name] += line + '\n';
  }
  return rows;
}

TEST(OptionAnswers, AreThoseOfTheTable) {
  const std::map<std::string, std::string> chosen = chosen_layout();
  const KeyValues full_layout{chosen.begin(), chosen.end()};
  ASSERT_EQ(kept_layout(full_layout), "");
  std::map<std::string, std::string> expected = expected_rows();
  for (const Shown& option : all_options()) {
    EXPECT_EQ(row(option, full_layout, chosen), expected[option.name]);
    expected.erase(option.name);
  }
  for (const auto& [name, text] : expected) ADD_FAILURE() << name << " is no option: " << text;
}

}  // namespace
}  // namespace trireme
