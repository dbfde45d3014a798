// What scripts rely on: exit codes, one message for one failure, and programs that say what they
// can.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "trireme/core/error.h"
#include "trireme/core/version.h"
#include "trireme/data/inspect.h"
#include "trireme/data/token_file.h"

#include "runtime/core/json/json.h"
#include "runtime/core/show_bytes.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"

namespace trireme::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class Programs : public testing::Test {
 protected:
  Programs() {
    std::ofstream(folder_ / "text") << std::string(5000, 'a') << std::string(5000, 'b');
    run("trireme data prepare --input " + (folder_ / "text") + " --output " + corpus());
  }
  std::string corpus() const { return folder_ / "corpus"; }

  static std::string mpirun(int ranks) {
    return ranks == 1 ? "" : str(TRIREME_MPIRUN " --timeout 120 -np ", ranks, " ");
  }
  Outcome run(const std::string& program, int ranks = 1) const {
    return run_command(mpirun(ranks) + TRIREME_BIN_DIR "/" + program);
  }
  Outcome run_command(const std::string& command) const {
    return run_shell(command, folder_ / "log");
  }

  /// What follows the log of a job that has trained.
  static std::string generated(const std::string& output) {
    const std::string mark = "] generated text:\n";
    const std::size_t at = output.find(mark);
    return at == std::string::npos ? "" : output.substr(at + mark.size());
  }

  ScratchDirectory folder_;
};

const std::string tiny_options =
    "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --train-iters 3 ";

TEST_F(Programs, AHostileConfigurationFileIsOneMessageAndExitCode64) {
  const std::pair<const char*, const char*> files[] = {
      {"[a]\nlr = 1e-3\n[b]\nlr = 2e-3\n", "file:4: lr is given twice, first on line 2"},
      {"save", "file:1: save has no value"},
      {"data-path = [\"D\"\nlr = 1e-3\n", "file:1: the '[' of data-path is not closed"},
      {"seed = 3.0", "--seed 3.0 (in "},
  };
  for (const auto& [text, message] : files)
    for (const int ranks : {1, 2}) {
      std::ofstream(folder_ / "file") << text;
      const Outcome outcome = run("train_gpt " + tiny_options + "--data-path " + corpus() +
                                      " --config " + (folder_ / "file"),
                                  ranks);
      EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
      EXPECT_EQ(count(outcome.output, "this configuration cannot run"), 1) << outcome.output;
      EXPECT_THAT(outcome.output, HasSubstr(message));
    }
}

TEST_F(Programs, OptionsThatTheLayoutMakesIdleAreOneLine) {
  const std::string plain =
      "train_gpt --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
      "--train-iters 0 --lr-warmup-iters 5 --data-path " +
      corpus();
  const Outcome idle = run(plain + " --sequence-parallel --use-distributed-optimizer");
  EXPECT_EQ(idle.exit_code, 0) << idle.output;
  EXPECT_EQ(count(idle.output,
                  "idle in this job: --use-distributed-optimizer (data parallel size 1), "
                  "--sequence-parallel (tensor parallel size 1)\n"),
            1)
      << idle.output;
  EXPECT_EQ(count(run(plain).output, "idle in"), 0);
}

TEST_F(Programs, AWrongConfigurationIsOneMessageAndExitCode64OnAnyNumberOfRanks) {
  for (const int ranks : {1, 4}) {
    const Outcome outcome =
        run("train_gpt --tp 3 --lr none --data-path " + folder_ / "missing --bogus", ranks);
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_EQ(count(outcome.output, "this configuration cannot run"), 1) << outcome.output;
    for (const char* part : {"--bogus", "--lr none", "--tensor-model-parallel-size 3 x",
                             "/missing.idx: cannot be opened", "--output /"})
      EXPECT_EQ(count(outcome.output, part), 1) << part << outcome.output;
  }
}

TEST_F(Programs, AFileThatOneRankOnlyCannotReadStopsAll) {
  // The shell of rank 1 gives it another option.
  const std::string log = folder_ / "log";
  const std::string each = "sh -c '" TRIREME_BIN_DIR "/train_gpt " + tiny_options + "--data-path " +
                           corpus() + "$( [ $OMPI_COMM_WORLD_RANK = 1 ] && echo .missing)'";
  const int status = std::system(
      (str(TRIREME_MPIRUN " --timeout 120 -np 2 ") + each + " > " + log + " 2>&1").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 64) << read_text(log);
  EXPECT_THAT(read_text(log), HasSubstr("- rank 1: --data-path: " + corpus() + ".missing.idx"));
}

TEST_F(Programs, AFailureAtRunTimeIsOneMessageAndExitCode1) {
  for (const int ranks : {1, 4}) {
    const Outcome outcome =
        run("train_gpt " + tiny_options + "--vocab-size 98 --data-path " + corpus(), ranks);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "trireme error: rank "), 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("is outside the vocabulary of 98"));
  }
}

TEST_F(Programs, AFailureOfOneRankAloneEndsAllWithItsMessage) {
  // Rank 0 alone writes metrics, and its disk is full.
  const Outcome outcome =
      run("train_gpt " + tiny_options + "--metrics /dev/full --data-path " + corpus(), 4);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("trireme[rank 0] error: --metrics /dev/full: No space left on device"));
}

TEST_F(Programs, TextIsTheSameOnEveryLayout) {
  const auto text = [&](const std::string& layout, int ranks) {
    const Outcome outcome =
        run("train_gpt " + tiny_options + "--generate 20 --temperature 0 --data-path " + corpus() +
                " " + layout,
            ranks);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return generated(outcome.output);
  };
  const std::string one = text("", 1);
  EXPECT_EQ(count(one, "The "), 1);
  EXPECT_EQ(text("--tp 2 --pp 2", 8), one);
}

TEST_F(Programs, WhatIsAskedForIsPrintedAtEveryLogLevel) {
  const Outcome outcome =
      run("train_gpt --model tiny --micro-batch-size 1 --global-batch-size 1 --train-iters 3 "
          "--dump-plan --profile-step 2 --profile-ops " +
          (folder_ / "profile.json") + " --log-level quiet --data-path " + corpus());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("embedding.weight"));                 // of the plan
  EXPECT_THAT(outcome.output, HasSubstr("gelu_linear            backward"));  // of the table
}

TEST_F(Programs, ACheckpointAloneIsEnoughToGenerate) {
  const std::string steps = folder_ / "run";
  const Outcome trained = run("train_gpt " + tiny_options +
                                  "--seed 7 --generate 20 --temperature 0 --lr-warmup-iters 2 " +
                                  "--data-path " + corpus() + " --save " + steps,
                              2);
  EXPECT_EQ(trained.exit_code, 0) << trained.output;
  const std::string text = generated(trained.output);
  ASSERT_EQ(count(text, "The "), 1);
  for (const char* layout : {"", "--pp 2", "--tp 2"}) {
    const OutcomeApart outcome =
        run_apart(mpirun(*layout != 0 ? 2 : 1) + TRIREME_BIN_DIR "/train_gpt --load " + steps +
                      " --use-checkpoint-args --generate 20 --temperature 0 " + layout,
                  folder_ / "log");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, text) << layout;
    EXPECT_THAT(outcome.errors, HasSubstr("--use-checkpoint-args: step 3 of " + steps +
                                          ": --num-layers 2, --hidden-size 32"));
  }
  const OutcomeApart quiet =
      run_apart(TRIREME_BIN_DIR "/train_gpt --load " + steps +
                    " --use-checkpoint-args --generate 20 --temperature 0 --log-level quiet",
                folder_ / "log");
  EXPECT_EQ(quiet.output, text);
  EXPECT_EQ(quiet.errors, "");
}

TEST_F(Programs, ACheckpointAloneIsEnoughToEvaluate) {
  const std::string steps = folder_ / "run";
  const auto number_after = [](const std::string& text, const std::string& name) {
    const std::size_t at = text.rfind(name);
    return at == std::string::npos ? 0 : std::atof(text.c_str() + at + name.size());
  };
  const std::string data = "--data-path " + corpus() + " --split 80,20,0 --eval-iters 4 ";
  run("train_gpt " + tiny_options + data + "--eval-interval 3 --save " + steps);
  const double trained = number_after(read_text(steps + "/metrics.jsonl"), "\"valid_loss\":");
  ASSERT_GT(trained, 0);
  for (const char* layout : {"", "--pp 2", "--tp 2"}) {
    const Outcome outcome = run("train_gpt --load " + steps +
                                    " --use-checkpoint-args --train-iters "
                                    "0 --eval-interval 1 " +
                                    data + layout,
                                *layout != 0 ? 2 : 1);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_NEAR(number_after(outcome.output, "validation loss "), trained, 1e-5) << layout;
  }
}

TEST_F(Programs, ADamagedManifestIsOneMessageOnAnyNumberOfRanks) {
  const std::string steps = folder_ / "run";
  EXPECT_EQ(
      run("train_gpt " + tiny_options + "--data-path " + corpus() + " --save " + steps).exit_code,
      0);
  std::ofstream(steps + "/step-000003/manifest.json") << "{}";
  for (const int ranks : {1, 2}) {
    const Outcome outcome =
        run("train_gpt --load " + steps + " --use-checkpoint-args --generate 5", ranks);
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_EQ(count(outcome.output, "step-000003/manifest.json"), 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("cannot run: 1 problem\n"));
  }
}

/// The environment of the tests gives a peak.
TEST_F(Programs, TheGemmPeakIsMeasuredOnceForAllJobs) {
  const std::string job = "env --unset=TRIREME_GEMM_PEAK XDG_CACHE_HOME=" + folder_.path() + " " +
                          TRIREME_BIN_DIR "/train_gpt --bf16 --data-path " + corpus() + " " + small;
  const auto peak = [&] {
    const Outcome outcome = run_command(mpirun(2) + job);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    std::smatch line;
    EXPECT_TRUE(std::regex_search(outcome.output, line, std::regex("GEMM peak of all.*GFLOP/s")));
    return line.str();
  };
  const std::string measured = peak();
  EXPECT_EQ(peak(), measured);
  const std::string kept = folder_.read("trireme/gemm_peak.json");
  EXPECT_THAT(kept, HasSubstr("bf16, ranks on the node: 2\":"));
}

TEST_F(Programs, AWrongGemmPeakIsRefusedBeforeTheFirstStep) {
  const Outcome outcome =
      run_command("env TRIREME_GEMM_PEAK=fast " TRIREME_BIN_DIR "/mlp --train-iters 1 --metrics " +
                  folder_.path() + "/run");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("TRIREME_GEMM_PEAK=fast in the environment is no number"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/run"));
}

TEST_F(Programs, MlpTrainsOnEveryAxis) {
  for (const char* layout : {"", "--tp 2", "--pp 2 --use-distributed-optimizer"})
    EXPECT_EQ(run(std::string("mlp --train-iters 5 ") + layout, 4).exit_code, 0) << layout;
}

TEST_F(Programs, EachPrintsTheVersionOnce) {
  const std::string expected = std::string("trireme ") + version() + "\n";
  for (const char* program : {"trireme", "trireme data prepare", "train_gpt", "mlp"})
    EXPECT_EQ(run(std::string(program) + " --version").output, expected) << program;
  EXPECT_EQ(run("train_gpt --version --no-such-option", 2).output, expected);
}

TEST_F(Programs, TriremeSaysWhatItCanDo) {
  const Outcome help = run("trireme --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("trireme data prepare"));
  const Outcome inspected = run("trireme data inspect " + corpus());
  EXPECT_EQ(inspected.exit_code, 0);
  EXPECT_THAT(inspected.output, HasSubstr("10000 tokens"));
}

/// Writes a token file of these documents. Returns its prefix.
std::string write_documents(const std::string& prefix, TokenType type,
                            const std::vector<std::vector<std::int64_t>>& documents) {
  TokenFileWriter writer(prefix, type);
  for (const std::vector<std::int64_t>& document : documents) {
    writer.add(document);
    writer.end_document();
  }
  writer.finish();
  return prefix;
}

TEST_F(Programs, InspectedDataIsOneJsonObjectToo) {
  const std::string prefix = write_documents(folder_ / "two", TokenType::u16, {{9, 7, 7, 8}, {6}});
  const Outcome outcome = run("trireme data inspect --json " + prefix);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const Json found = parse_json(outcome.output);
  const Inspection facts = inspect(prefix, Scan::every_token);
  const auto whole = [&](const char* key) {
    const Json* value = found.find(key);
    return value == nullptr ? Index{-1} : std::get<Index>(value->value);
  };
  EXPECT_EQ(std::get<std::string>(found.find("prefix")->value), prefix);
  EXPECT_EQ(std::get<std::string>(found.find("type")->value), "u16");
  EXPECT_EQ(whole("tokens"), facts.tokens);
  EXPECT_EQ(whole("documents"), facts.documents);
  EXPECT_EQ(whole("sequences"), facts.sequences);
  EXPECT_EQ(whole("shortest_document"), facts.shortest_document);
  EXPECT_EQ(whole("longest_document"), facts.longest_document);
  EXPECT_EQ(whole("smallest_token"), facts.statistics->smallest);
  EXPECT_EQ(whole("smallest_position"), facts.statistics->smallest_position);
  EXPECT_EQ(whole("largest_token"), facts.statistics->largest);
  EXPECT_EQ(whole("largest_position"), facts.statistics->largest_position);
  EXPECT_EQ(whole("distinct_tokens"), facts.statistics->distinct);
  EXPECT_NEAR(std::get<double>(found.find("entropy_bits")->value), facts.statistics->entropy_bits,
              1e-12);
  const auto& frequent = std::get<Json::Array>(found.find("frequent")->value);
  ASSERT_EQ(frequent.size(), facts.statistics->frequent.size());
  EXPECT_EQ(std::get<Index>(frequent[0].find("token")->value), 7);
  EXPECT_EQ(std::get<Index>(frequent[0].find("count")->value), 2);
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(found.find("problem")->value));
}

TEST_F(Programs, InspectedDataOfNoVocabularyHasAProblemInItsJson) {
  const std::string prefix = write_documents(folder_ / "wrong", TokenType::i16, {{3, -5}});
  const Outcome outcome = run("trireme data inspect --json " + prefix);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  // Beside the message on stderr.
  const std::size_t begin = outcome.output.find('{'), end = outcome.output.find("}\n");
  ASSERT_LT(begin, end) << outcome.output;
  const Json found = parse_json(outcome.output.substr(begin, end + 1 - begin));
  EXPECT_THAT(std::get<std::string>(found.find("problem")->value), HasSubstr("-5"));
}

TEST_F(Programs, TriremeNamesWhatIsWrong) {
  const std::string missing = folder_ / "missing";
  const struct {
    std::string line;
    int exit_code;
    std::string part;
  } wrong[] = {
      {"trireme", 64, "a command is missing"},
      {"trireme data prepar", 64, "did you mean data prepare?"},
      {"trireme data prepare --output x", 64, "--input is missing"},
      {"trireme data prepare --input " + missing + " --output " + corpus(), 64, missing},
      {"trireme data prepare --inptu x --output y", 64, "did you mean --input?"},
      {"trireme data inspect", 64, "PREFIX is missing"},
      {"trireme data inspect " + missing, 64, missing + ".idx"},
  };
  for (const auto& [line, exit_code, part] : wrong) {
    const Outcome outcome = run(line);
    EXPECT_EQ(outcome.exit_code, exit_code) << line;
    EXPECT_THAT(outcome.output, HasSubstr(part)) << line;
  }
}

TEST_F(Programs, TheReferenceOfOptionsIsWhatTheProgramPrints) {
  const Outcome outcome = run("train_gpt --help-markdown");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.output == read_text(TRIREME_SOURCE_DIR "/docs/reference/all_options.md"))
      << "docs/reference/all_options.md is old; make it again with: build/release/bin/train_gpt "
         "--help-markdown > docs/reference/all_options.md";
}

/// All names of the options in the text of --help.
std::set<std::string> options_in(const std::string& help) {
  std::set<std::string> all;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  --", 0) != 0) continue;
    std::istringstream names(line.substr(2, line.find(' ', 2) - 2));
    for (std::string name; std::getline(names, name, ',');) all.insert(name);
  }
  return all;
}

TEST_F(Programs, CheckALayoutWithoutRanksAsTheJobWouldPlanIt) {
  const std::string options =
      " --model tiny --num-layers 2 --tp 2 --use-distributed-optimizer "
      "--train-iters 1 --threads-per-rank 1 --save " +
      (folder_ / "run") + " --data-path " + corpus();
  const Outcome checked = run("train_gpt --check-layout 4,3 " + options);
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  const Json line = parse_json(checked.output.substr(0, checked.output.find('\n')));
  EXPECT_TRUE(std::get<bool>(line.find("legal")->value));
  EXPECT_EQ(std::get<Index>(line.find("data")->value), 2);
  EXPECT_THAT(checked.output, HasSubstr("{\"ranks\":3,\"legal\":false,\"problems\":[\"--tensor"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  const Outcome trained = run("train_gpt" + options, 4);
  EXPECT_EQ(trained.exit_code, 0) << trained.output;
  const Index bytes = std::get<Index>(line.find("rank_bytes")->value);
  EXPECT_THAT(trained.output, HasSubstr("largest rank " + show_bytes(bytes)));
  EXPECT_THAT(run("mlp --check-layout 2").output, HasSubstr("{\"ranks\":2,\"legal\":true"));
}

TEST_F(Programs, EveryOptionOfHelpIsDocumented) {
  const std::set<std::string> names = options_in(run("train_gpt --help").output);
  const std::string list = read_text(TRIREME_SOURCE_DIR "/docs/reference/all_options.md");
  EXPECT_GT(names.size(), 50u);
  for (const std::string& name : names) {
    if (name == "--version") continue;  // like --help, in no group of the list
    EXPECT_THAT(list, testing::AnyOf(HasSubstr("`" + name + "`"), HasSubstr("`" + name + " ")));
  }
  EXPECT_THAT(list, Not(HasSubstr("|  |\n"))) << "a row has no meaning";
}

TEST_F(Programs, ThePageOfOptionsNamesOnlyOptionsThatExist) {
  std::set<std::string> names = options_in(run("train_gpt --help").output);
  names.insert({"--help", "--help-markdown", "--mca", "--oversubscribe"});  // or of mpirun
  const std::string page = read_text(TRIREME_SOURCE_DIR "/docs/reference/options.md");
  const std::regex option("--[a-z0-9]+(-[a-z0-9]+)*");
  std::set<std::string> named;
  for (std::sregex_iterator i(page.begin(), page.end(), option), end; i != end; ++i)
    named.insert(i->str());
  EXPECT_GT(named.size(), 30u);
  for (const std::string& name : named) EXPECT_THAT(names, Contains(name));
}

// They take 0.15 s and 200 MiB.
TEST_F(Programs, LoadNoLibraryOfCudaWithoutADriver) {
  if (::dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "this machine has a driver";
  ::setenv("LD_DEBUG", "files", 1);
  const Outcome generated = run("train_gpt --model tiny --train-iters 0 --generate 1");
  ::unsetenv("LD_DEBUG");
  EXPECT_EQ(generated.exit_code, 0);
  EXPECT_THAT(generated.output, HasSubstr("libtrireme.so"));
  EXPECT_THAT(generated.output, Not(testing::ContainsRegex("calling init: [^\n]*libtrireme_cuda")));
}

}  // namespace
}  // namespace trireme::test
