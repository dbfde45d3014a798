// What is refused beside --skip-train and --generate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct RefusedLine {
  const char* line;
  int ranks;
  std::vector<const char*> parts;  // of the only problem
};

TEST(InferenceGate, NamesOptionValueAndWhatWouldBeRight) {
  const RefusedLine lines[] = {
      {"--prompts f", 1, {"--prompts", "--generate"}},
      {"--output f", 1, {"--output", "--generate"}},
      {"--tokenizer f", 1, {"--tokenizer", "--generate"}},
      {"--top-k 5", 1, {"--top-k", "--generate"}},
      {"--generate 5 --top-k -1", 1, {"--top-k -1", ">= 0", "the nearest is 0"}},
      {"--generate 5 --top-p 0", 1, {"--top-p 0", "> 0 and <= 1"}},
      {"--generate 5 --top-p 1.5", 1, {"--top-p 1.5", "> 0 and <= 1"}},
      {"--generate 5 --top-p 0.5 --temperature 0", 1, {"--top-p", "--temperature 0"}},
      {"--generate 5 --prompt a --prompts f", 1, {"--prompt and --prompts"}},
      {"--generate 5 --output /missing-directory/f",
       1,
       {"--output /missing-directory/f", "no directory"}},
      {"--generate 5 --prompts /tmp/f --output /tmp/./f",
       1,
       {"--output /tmp/./f", "--prompts", "name another one"}},
      {"--generate 5 --metrics /tmp/f --output /tmp/f", 1, {"--output /tmp/f", "--metrics"}},
      // What evaluates alone.
      {"--skip-train", 1, {"--skip-train", "add --load DIR or --load-hf DIR"}},
      {"--skip-train --load /tmp --train-iters 5", 1, {"--train-iters", "--skip-train"}},
      {"--skip-train --load /tmp --save /tmp/c", 1, {"--save", "--skip-train", "leave it out"}},
      {"--skip-train --load /tmp --eval-iters 5",
       1,
       {"--eval-iters", "each token", "leave it out"}},
      {"--skip-train --load /tmp --eval-interval 5", 1, {"--eval-interval", "--skip-train"}},
      {"--skip-train --load /tmp --dump-tensors t", 1, {"--dump-tensors", "--skip-train"}},
  };
  for (const RefusedLine& wrong : lines) {
    const std::vector<std::string> problems = problems_of(wrong.line, wrong.ranks);
    ASSERT_EQ(problems.size(), 1u) << wrong.line << testing::PrintToString(problems);
    for (const char* part : wrong.parts) EXPECT_THAT(problems, ElementsAre(HasSubstr(part)));
  }
}

TEST(InferenceGate, TakesWhatCanBeDone) {
  for (const char* line :
       {"--skip-train --load /tmp", "--skip-train --load-hf /tmp", "--skip-train --plan-only",
        "--generate 5 --top-k 3 --top-p 0.5 --output f.jsonl",
        "--skip-train --load /tmp --generate 5 --temperature 0"}) {
    const GptCommandLine parsed(line, 1);
    EXPECT_THAT(parsed.problems.all(), ElementsAre()) << line;
    EXPECT_EQ(parsed.options.forward_only, parsed.gpt.skip_train) << line;
  }
}

TEST(InferenceGate, JobsThatNeitherTrainNorSaveNeedForwardPassesAlone) {
  const auto forward_only = [](const std::string& line) {
    return GptCommandLine(line, 1).options.forward_only;
  };
  EXPECT_TRUE(forward_only("--load /tmp --generate 5"));
  EXPECT_TRUE(forward_only("--load /tmp --train-iters 0 --eval-interval 1 --data-path p"));
  EXPECT_FALSE(forward_only("--load /tmp --generate 5 --data-path p"));
  EXPECT_FALSE(forward_only("--load /tmp --generate 5 --save /tmp/new"));
  EXPECT_FALSE(forward_only("--load /tmp --generate 5 --dump-tensors t"));
  EXPECT_FALSE(forward_only("--train-iters 0 --generate 5"));
}

}  // namespace
}  // namespace trireme
