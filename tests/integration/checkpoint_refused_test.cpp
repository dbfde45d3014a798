// Jobs that must not continue: a second one in the same directory, and one that is of another
// model, seed, optimizer or data than the checkpoint that it is to load.

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "runtime/core/process/this_machine.h"
#include "tests/support/saving_jobs.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

using RefusedJob = SavingJobs;

TEST_F(RefusedJob, ASecondJobInOneDirectoryIsRefusedWithHostAndProcessOfTheFirst) {
  const std::string root = jobs_ / "shared";
  BackgroundProcess first(
      "exec " + jobs_.training(two, str("--train-iters 1000000 --save-interval 50 --save ", root)),
      jobs_ / "first");
  ASSERT_TRUE(wait_until([&] { return !committed_steps(root).empty(); })) << first.output();
  const Outcome second = jobs_.run(saving(root));
  EXPECT_EQ(second.exit_code, 64) << second.output;
  EXPECT_THAT(second.output, AllOf(HasSubstr(root), HasSubstr(host_name()), HasSubstr("pid ")));
  EXPECT_EQ(count(second.output, "--save " + root + ": "), 1) << second.output;

  EXPECT_TRUE(first.running());
  first.send(SIGUSR1);
  EXPECT_EQ(first.wait().exit_code, 75) << first.output();
  expect_verified(root);
}

/// All files below a directory with their contents.
std::map<std::string, std::string> contents(const std::string& root) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    all[entry.path()] = entry.is_regular_file() ? read_text(entry.path()) : "";
  return all;
}

using Changes = std::vector<std::pair<std::string, std::string>>;

/// The options of the model with other values.
std::string changed(const Changes& changes) {
  std::string model = small_gpt;
  for (const auto& [from, to] : changes) model.replace(model.find(from), from.size(), to);
  return model;
}

class OtherJob : public SavingJobs {
 protected:
  void expect_refused(const std::string& root, const std::string& options,
                      const std::vector<std::string>& said) {
    const auto before = contents(root);
    const Outcome outcome = jobs_.run(
        jobs_.training(two, str("--train-iters 7 --load ", root, " --save ", root, " ", options)));
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    for (const std::string& each : said)
      EXPECT_EQ(count(outcome.output, each), 1) << each << "\n" << outcome.output;
    EXPECT_TRUE(contents(root) == before) << "files changed";
  }
};

TEST_F(OtherJob, OfAnotherModelSeedOrDataIsRefusedWithEveryDifferenceAndChangesNothing) {
  const std::string root = jobs_ / "saved";
  jobs_.succeed(
      jobs_.training(four, "--train-iters 5 --save " + root));  // its metrics are in there, too
  const struct {
    std::string model, options;
    std::vector<std::string> said;
  } others[] = {
      {changed({{"--hidden-size 96", "--hidden-size 48"},
                {"--num-layers 4", "--num-layers 2"},
                {"--vocab-size 256", "--vocab-size 300"}}),
       "--seed 7",
       {"--hidden-size is 48 here and 96 in the checkpoint",
        "--num-layers is 2 here and 4 in the checkpoint",
        "--vocab-size is 300 here and 256 in the checkpoint",
        "--seed is 7 here and 1234 in the checkpoint"}},
      {changed({{"--num-layers 4", "--num-layers 6"}}),
       "",
       {"--num-layers is 6 here and 4 in the checkpoint"}},
      {small_gpt,
       "--untie-embeddings-and-output-weights",
       {"--untie-embeddings-and-output-weights is true here and false in the checkpoint"}},
      {small_gpt,
       "--activation gelu-erf",
       {"--activation is gelu-erf here and gelu-tanh in the checkpoint"}},
      {small_gpt, "--split 80,20,0", {"; --split is 80,20,0 here and was 969,30,1"}},
      {changed({{"--optimizer adamw", "--optimizer sgd"}}),
       "",
       {"--optimizer is sgd here and adamw in the checkpoint"}},
  };
  for (const auto& job : others) {
    SCOPED_TRACE(job.model + job.options);
    jobs_.model = job.model;
    expect_refused(root, job.options, job.said);
  }
  jobs_.model = small_gpt;
  jobs_.data = jobs_ / "other";
  jobs_.succeed(CheckpointJobs::trireme(
      "data prepare --input /usr/share/common-licenses/Apache-2.0 --output " + jobs_.data));
  expect_refused(root, "", {"data: train tokens is "});
}

TEST_F(OtherJob, ACorpusOfTheSameSizeWithOtherWordsIsRefusedWithItsFile) {
  const std::string root = jobs_ / "saved";
  jobs_.succeed(jobs_.training(two, "--train-iters 5 --save " + root));
  std::string tokens = read_text(jobs_.data + ".bin");
  for (char& c : tokens) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::ofstream(jobs_.data + ".bin", std::ios::binary) << tokens;
  expect_refused(
      root, "",
      {"data: train content is ", " in the checkpoint; the file is " + jobs_.data + ".bin"});
}

}  // namespace
}  // namespace trireme::test
