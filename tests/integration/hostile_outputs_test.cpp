// What stands where an option writes: each option of every program that makes a file or directory
// meets each kind of thing that may have its name. It is refused before work starts, by name, with
// exit code 64, and what was there stays; or it is used as what it is.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/checkpoint_jobs.h"
#include "tests/support/corpus_race.h"
#include "tests/support/full_device.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// What an option writes.
enum class Writes {
  lines,      // text, also into a pipe or a device
  file,       // in place of one of the same kind
  new_file,   // or a new directory: it must not exist
  files,      // several, whose names begin with the value
  directory,  // in one that is there, or is made
  tree,       // the same with those above it
  in          // in one that has to be there
};

/// In `line`, OUT is the value; words in capitals are replaced as in words().
struct Output {
  const char *program, *option;
  Writes writes;
  const char* line;
  std::vector<const char*> suffixes = {""};  // of the names of files
};
void PrintTo(const Output& output, std::ostream* out) { *out << output.program << output.option; }

const Output outputs_of_programs[] = {
    {"train_gpt", "--metrics", Writes::lines, "PLAN --metrics OUT"},
    {"train_gpt", "--profile-ops", Writes::lines, "PLAN --profile-ops OUT"},
    {"train_gpt", "--output", Writes::lines, "PLAN --generate 1 --output OUT"},
    {"train_gpt",
     "--dump-tensors",
     Writes::files,
     "PLAN --dump-tensors OUT",
     {".gradients.index", ".gradients.f32", ".parameters.index", ".parameters.f32"}},
    {"train_gpt", "--save", Writes::directory, "PLAN --save OUT"},
    {"train_gpt", "--gemm-cache", Writes::directory, "PLAN --gemm-cache OUT"},
    {"data prepare",
     "--output",
     Writes::files,
     "TRIREME data prepare --input TEXT --output OUT",
     {".bin", ".idx", ".json", ".bin.tmp", ".idx.tmp", ".json.tmp"}},
    {"checkpoint export", "--output", Writes::new_file,
     "TRIREME checkpoint export RUN --output OUT"},
    {"hf export", "--output", Writes::new_file, "TRIREME hf export RUN --output OUT"},
    {"hf import", "--output", Writes::directory, "TRIREME hf import MODEL --output OUT"},
    {"plan", "--calibrate", Writes::file, "TRIREME plan --calibrate OUT --ranks 1"},
    {"trireme_calibrate", "--profile", Writes::file, "CALIBRATE --profile OUT"},
    {"preflight", "--json", Writes::lines, "TRIREME preflight --json OUT"},
    {"preflight", "--run-dir", Writes::tree, "TRIREME preflight --run-dir OUT"},
    {"run", "--run-dir", Writes::tree, "TRIREME run --run-dir OUT -n 1 -- /bin/true"},
    {"run", "--save", Writes::tree, "TRIREME run -n 1 -- TRAIN --save OUT"},
    {"verify", "--directory", Writes::in, "TRIREME verify --ranks 2 --directory OUT -- TRAIN"},
    {"chaos", "--save-chaos", Writes::directory,
     "TRIREME chaos RUN --yes --kinds corrupt --save-chaos OUT"},
};

/// Options that name what is read only, and one for the disk of a node: a job runs without it too.
const std::set<std::string> inputs_of_programs = {
    "train_gpt --save-local",   "train_gpt --load",
    "train_gpt --config",       "train_gpt --load-hf",
    "train_gpt --plan-profile", "train_gpt --data-path",
    "train_gpt --tokenizer",    "train_gpt --prompts",
    "data prepare --input",     "data prepare --tokenizer",
    "data decode --tokenizer",  "hf export --tokenizer",
    "plan --model-config",      "plan --hf",
    "plan --cluster",           "run --hostfile",
    "chaos --reference",        "preflight --hostfile",
    "preflight --against"};

class HostileOutputs : public testing::TestWithParam<Output> {
 protected:
  static void SetUpTestSuite() {
    jobs_ = std::make_unique<CheckpointJobs>(tiny_gpt);
    jobs_->train({"one", 1, "--micro-batch-size 8"}, "--train-iters 1 --save " + *jobs_ / "run");
    jobs_->succeed(jobs_->trireme("hf export " + *jobs_ / "run" + " --output " + *jobs_ / "model"));
    std::ofstream(*jobs_ / "text") << "some text\n";
    fs::create_directory(*jobs_ / "directory");
    std::ofstream(*jobs_ / "directory/notes") << notes;
    fs::create_symlink(*jobs_ / "gone/x", *jobs_ / "dangling");
    device_ = full_device(path("device"));
    require(::mkfifo((*jobs_ / "pipe").c_str(), 0600) == 0, "mkfifo");
    fs::create_directory(*jobs_ / "shared");
    ::chmod((*jobs_ / "shared").c_str(), 01777);
    ::chmod(fs::path(*jobs_ / "x").parent_path().c_str(), 0755);
  }
  static void TearDownTestSuite() { jobs_.reset(); }

  static std::string path(const std::string& name) { return *jobs_ / name; }
  static std::string line(const Output& output, const std::string& value) {
    const std::string bin = TRIREME_BIN_DIR "/";
    const std::pair<std::string, std::string> words[] = {
        {"PLAN", jobs_->program("--plan-only=1")},
        {"TRAIN", jobs_->program("--train-iters 1")},
        {"CALIBRATE", bin + "trireme_calibrate --micro-batch-size 1 --global-batch-size 1"},
        {"TRIREME", "timeout 60 " + bin + "trireme"},
        {"TEXT", path("text")},
        {"MODEL", path("model")},
        {"RUN", path("run")},
        {"NEW", path("new-run")},
        {"OUT", value}};
    std::string all = output.line;
    for (const auto& [word, meaning] : words)
      all = std::regex_replace(all, std::regex("\\b" + word + "\\b"), meaning);
    return all;
  }
  /// `says`: after the option with its value.
  static void refused(const Output& output, const std::string& value, const std::string& says,
                      const std::string& before = "") {
    SCOPED_TRACE(str(output.program, ' ', output.option, ' ', value));
    const Outcome outcome = jobs_->run(before + line(output, value));
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    const std::size_t named = outcome.output.find(str(output.option, ' ', value));
    EXPECT_NE(named, std::string::npos) << outcome.output;
    EXPECT_THAT(outcome.output.substr(std::min(named, outcome.output.size())), HasSubstr(says));
  }
  static bool is_of(const Output& output, std::initializer_list<Writes> kinds) {
    return std::find(kinds.begin(), kinds.end(), output.writes) != kinds.end();
  }
  static constexpr const char* notes = "three years of work";

  static std::unique_ptr<CheckpointJobs> jobs_;
  static std::string device_;
};
std::unique_ptr<CheckpointJobs> HostileOutputs::jobs_;
std::string HostileOutputs::device_;

TEST_P(HostileOutputs, ReplaceNoFileOfAnotherProgram) {
  const Output& output = GetParam();
  for (const char* suffix : output.suffixes) {
    const std::string name = path(str("foreign", suffix));
    std::ofstream(name) << notes;
    refused(output, path("foreign"), is_of(output, {Writes::files}) ? "foreign" : "");
    EXPECT_EQ(read_text(name), notes) << name;
    fs::remove(name);
  }
}

TEST_P(HostileOutputs, RefuseWhatIsNoFileOrDirectory) {
  const Output& output = GetParam();
  const bool files = is_of(output, {Writes::files});
  if (!is_of(output, {Writes::tree})) refused(output, path("none/of/it"), "there is no directory");
  if (is_of(output, {Writes::lines, Writes::file, Writes::new_file, Writes::files}))
    refused(output, path("directory"), files ? "is a directory" : "directory");
  if (!files) refused(output, path("dangling"), "is a link to");
  if (!is_of(output, {Writes::lines})) {
    refused(output, path("pipe"), "");
    refused(output, device_, "");
  }
  EXPECT_EQ(read_text(path("directory/notes")), notes);
}

TEST_P(HostileOutputs, OfAnotherUserAreNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act for another user";
  const Output& output = GetParam();
  constexpr uid_t other = 12345;
  const std::string value = path("shared/x");
  for (const char* suffix : output.suffixes) {
    const std::string name = value + suffix;
    if (is_of(output, {Writes::directory, Writes::tree, Writes::in}))
      fs::create_directory(name);
    else
      std::ofstream(name).close();
    ::chown(name.c_str(), other, other);
    refused(output, value, "another user");
    fs::remove(name);
    fs::create_symlink(path("text"), name);
    ::lchown(name.c_str(), other, other);
    refused(output, value, "another user");
    fs::remove(name);
  }
  EXPECT_EQ(read_text(path("text")), "some text\n");
}

/// By a user who has no right to write.
TEST_P(HostileOutputs, ThatCannotBeWrittenAreNamed) {
  const Output& output = GetParam();
  fs::create_directories(path("closed"));
  ::chmod(path("closed").c_str(), 0555);
  const bool directory = is_of(output, {Writes::in, Writes::tree});
  refused(output, path(directory ? "closed" : "closed/x"), "cannot be written to",
          ::geteuid() == 0 ? "HOME=/nonexistent setpriv --reuid 65534 --regid 65534 --clear-groups "
                           : "");
}

INSTANTIATE_TEST_SUITE_P(Table, HostileOutputs, testing::ValuesIn(outputs_of_programs),
                         [](const auto& row) {
                           std::string name;
                           for (const char c : str(row.param.program, row.param.option))
                             name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

/// The options that name a file or a directory, by the words of help for their values.
std::set<std::string> options_of(const std::string& program, const std::string& help) {
  std::set<std::string> found;
  const std::regex option(R"(\n  (--[a-z-]+)[^ \n]* ([A-Z\[\]., |]*(FILE|DIR|PATH|PREFIX|RUN)\b))");
  for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at)
    found.insert(str(program, ' ', at->str(1)));
  return found;
}

TEST(HostileOutputsTable, HasEveryOptionThatNamesAFile) {
  const ScratchDirectory folder;
  const auto help = [&](const std::string& words) {
    return run_shell(TRIREME_BIN_DIR "/" + words + " --help", folder / "log").output;
  };
  std::set<std::string> named = options_of("train_gpt", help("train_gpt"));
  const std::string commands = help("trireme");
  const std::regex command(R"(\n  trireme ([a-z-]+( [a-z]+)?))");
  for (std::sregex_iterator at(commands.begin(), commands.end(), command), end; at != end; ++at)
    named.merge(options_of(at->str(1), help("trireme " + at->str(1))));
  ASSERT_GT(named.size(), 25u);
  std::set<std::string> known = inputs_of_programs;
  for (const Output& output : outputs_of_programs)
    known.insert(str(output.program, ' ', output.option));
  for (const std::string& option : named)
    EXPECT_TRUE(known.contains(option))
        << option << ": add it to outputs_of_programs, or where it only reads, to "
        << "inputs_of_programs";
}

TEST(HostileOutputsTable, StreamsTakeWhatIsText) {
  CheckpointJobs jobs(tiny_gpt);
  const std::string train = jobs.program("--train-iters 1 --micro-batch-size 8");
  const Outcome shown = jobs.run(train + " --metrics /dev/stdout --log-level quiet");
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("{\"step\":1,\"loss\":"));
  const std::string device = full_device(jobs / "device");
  const Outcome full = jobs.run(train + " --metrics " + device);
  EXPECT_EQ(full.exit_code, 1) << full.output;
  EXPECT_THAT(full.output, HasSubstr("--metrics " + device + ": No space left on device"));
  const Outcome piped =
      jobs.run(str("mkfifo ", jobs / "pipe", "; cat ", jobs / "pipe", " & ", train,
                   " --log-level quiet --metrics ", jobs / "pipe", "; wait"));
  EXPECT_EQ(piped.exit_code, 0) << piped.output;
  EXPECT_THAT(piped.output, HasSubstr("{\"step\":1,\"loss\":"));
}

TEST(HostileOutputsTable, NoOptionReplacesTheInputOfAnother) {
  CheckpointJobs jobs(tiny_gpt);
  const std::string bytes = read_text(jobs.data + ".bin");
  std::ofstream(jobs / "prompts.jsonl") << "{\"prompt\":\"Once\"}\n";
  std::ofstream(jobs / "report.json") << "{\"format\":1,\"nodes\":[],\"pairs\":[]}\n";
  std::ofstream(jobs / "empty");
  fs::create_hard_link(jobs / "empty", jobs / "link");
  const std::pair<std::string, std::string> lines[] = {
      {jobs.trireme("data prepare --input " + jobs.data + ".bin --output " + jobs.data),
       "--output " + jobs.data + ": " + jobs.data +
           ".bin would replace the file of --input; name another one"},
      {jobs.program("--plan-only=1 --generate 1 --prompts " + jobs / "prompts.jsonl" +
                    " --output " + jobs / "prompts.jsonl"),
       "would replace the file of --prompts"},
      {jobs.program("--plan-only=1 --metrics " + jobs / "x" + " --profile-ops " + jobs / "./x"),
       "would replace the file of --metrics"},
      {jobs.program("--plan-only=1 --config " + jobs / "empty" + " --metrics " + jobs / "link"),
       "--metrics " + jobs / "link" + " would replace the file of --config"},
      {jobs.trireme("plan --ranks 1 --model-config " + jobs / "empty" + " --calibrate " +
                    jobs / "link"),
       "--calibrate " + jobs / "link" + " would replace the file of --model-config"},
      {jobs.trireme("preflight --against " + jobs / "report.json" + " --json " +
                    jobs / "report.json"),
       "would replace the file of --against"}};
  for (const auto& [line, message] : lines) {
    const Outcome outcome = jobs.run(line);
    EXPECT_EQ(outcome.exit_code, 64) << line << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  }
  EXPECT_EQ(read_text(jobs.data + ".bin"), bytes);
}

TEST(WritersOfOneCorpus, LeaveThatOfOneOfThem) {
  constexpr int trials = 3;
  for (const int writers : {2, 4}) race_for_a_corpus(writers, trials);
}

}  // namespace
}  // namespace trireme::test
