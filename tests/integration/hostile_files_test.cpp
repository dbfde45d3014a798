// Files, directories and outputs that are not what they should be: a clear message, and an exit
// code that a script sees.
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/token_file.h"

#include "runtime/store/steps.h"
#include "tests/support/checkpoint_jobs.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

/// Words in capitals are replaced by paths: DATA, ODD (a token below 0), RUN (one step), BAD (it,
/// and newer ones that cannot be read), FOREIGN (a directory with a file), EMPTY; TRIREME and TRAIN
/// for the programs.
struct Hostile {
  std::string line;
  int exit_code;
  std::vector<std::string> messages;
};
void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.line; }

class HostileFiles : public testing::TestWithParam<Hostile> {
 protected:
  HostileFiles() {
    const std::vector<std::int64_t> tokens{5, -3, 7};
    TokenFileWriter odd(jobs_ / "odd", TokenType::i64);
    odd.add(tokens);
    odd.end_document();
    odd.finish();
    fs::create_directory(jobs_ / "foreign");
    fs::create_directory(jobs_ / "empty");
    std::ofstream(jobs_ / "foreign/notes") << "mine\n";
    jobs_.succeed(jobs_.program("--train-iters 2 --save " + jobs_ / "run"));
    fs::copy(jobs_ / "run", jobs_ / "bad", fs::copy_options::recursive);
    for (Index step = 3; step <= 14; ++step)
      fs::create_directory((jobs_ / "bad/") + step_name(step));
  }
  std::string filled(std::string line) const {
    const std::pair<std::string, std::string> words[] = {
        {"DATA", jobs_.data},
        {"ODD", jobs_ / "odd"},
        {"RUN", jobs_ / "run"},
        {"BAD", jobs_ / "bad"},
        {"FOREIGN", jobs_ / "foreign"},
        {"EMPTY", jobs_ / "empty"},
        {"GONE", jobs_ / "gone"},
        {"TRIREME", TRIREME_BIN_DIR "/trireme"},
        {"TRAIN", jobs_.program("--train-iters 3")}};
    for (const auto& [word, path] : words)
      for (std::size_t at; (at = line.find(word)) != std::string::npos;)
        line.replace(at, word.size(), path);
    return line;
  }
  CheckpointJobs jobs_{small_gpt};
};

TEST_P(HostileFiles, GetAClearMessage) {
  const Hostile& hostile = GetParam();
  const Outcome outcome = jobs_.run(filled(hostile.line));
  EXPECT_EQ(outcome.exit_code, hostile.exit_code) << outcome.output;
  for (const std::string& message : hostile.messages)
    EXPECT_THAT(outcome.output, testing::HasSubstr(filled(message)));
}

const Hostile table[] = {
    {"TRIREME data inspect DATA", 0, {}},
    {"TRIREME data inspect ODD", 1, {"ODD.bin: token -3 at position 1 is in no vocabulary"}},
    {"TRIREME data inspect DATA > /dev/full", 1, {"trireme: standard output cannot be written"}},
    {"TRIREME checkpoint list RUN > /dev/full", 1, {"standard output cannot be written"}},
    {"TRIREME checkpoint verify RUN --json > /dev/full", 1, {"standard output cannot be written"}},
    {"TRIREME --help > /dev/full", 1, {"standard output cannot be written"}},
    {"TRAIN > /dev/full", 1, {"trireme: standard output cannot be written"}},
    {"TRAIN --plan-only=1 > /dev/full", 1, {"standard output cannot be written"}},
    {"TRAIN --check-layout 1 > /dev/full", 1, {"standard output cannot be written"}},
    {"TRIREME checkpoint list FOREIGN", 64, {"FOREIGN is no directory of a run", "it holds notes"}},
    {"TRIREME checkpoint prune FOREIGN --keep-last 1", 64, {"FOREIGN is no directory of a run"}},
    {"TRIREME checkpoint list EMPTY", 0, {"0 committed steps"}},
    {"mkdir GONE && cd GONE && rmdir GONE && TRAIN --save rel",
     64,
     {"--save rel: the working directory is gone"}},
    {"mkdir GONE && cd GONE && rmdir GONE && TRAIN --load RUN --save rel",
     64,
     {"--save rel: the working directory is gone"}},
    {"TRAIN --load BAD",
     0,
     {"step 14: ", "step 10: ", "--load BAD: 7 more steps cannot be loaded either",
      "loaded step 2"}},
    {"rm -r BAD/step-000002 && TRAIN --load BAD",
     1,
     {"no step can be loaded:", "step 10: ", "\n  - and 7 more steps"}},
};
INSTANTIATE_TEST_SUITE_P(Table, HostileFiles, testing::ValuesIn(table));

}  // namespace
}  // namespace trireme::test
