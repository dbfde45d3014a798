// The configuration gate: wrong configurations and files, each with what the message must say.
#include <filesystem>
#include <fstream>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/options/gpt_command_line.h"
#include "tests/support/recorded_problems.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> problems_of_line(const std::string& text, Index ranks) {
  GptCommandLine line(text, ranks);
  if (line.command.given("--data-path")) open_gpt_data(line.options, line.gpt, line.problems);
  return line.problems.all();
}

/// MISSING in a text is replaced by a path where nothing is.
std::string with_missing(std::string text, const ScratchDirectory& folder) {
  const std::string name = "MISSING", path = folder / "missing";
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += path.size())
    text.replace(at, name.size(), path);
  return text;
}

struct Wrong {
  std::string line;
  Index ranks;
  std::vector<std::string> parts;  // of one message
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.line; }

class Gate : public testing::TestWithParam<Wrong> {};

TEST_P(Gate, NamesOptionValueAndWhatWouldBeRight) {
  const Wrong& wrong = GetParam();
  const ScratchDirectory folder;
  const auto problems = problems_of_line(with_missing(wrong.line, folder), wrong.ranks);
  ASSERT_EQ(problems.size(), 1u) << testing::PrintToString(problems);
  for (const std::string& part : wrong.parts)
    EXPECT_THAT(problems.front(), HasSubstr(with_missing(part, folder)));
}

const Wrong wrong_lines[] = {
    // Options and types.
    {"--tensor-parallel-size 2",
     2,
     {"unknown option --tensor-parallel-size", "--tensor-model-parallel-size"}},
    {"--train-iter 5", 1, {"--train-iter;", "--train-iters"}},
    {"--save-intervall 5 --save /tmp/c", 1, {"--save-intervall;", "--save-interval?"}},
    {"--device gpu", 1, {"--device gpu", "{auto,cpu,cuda}"}},
    {"--device cpu --serialize-communication", 1, {"--serialize-communication", "--device cpu"}},
    {"--device cpu --check-collectives", 1, {"--check-collectives", "--device cpu"}},
    {"--ranks-per-gpu 2", 1, {"--ranks-per-gpu 2", "needs --serialize-communication"}},
    {"--gemm-cache /tmp --device cpu", 1, {"--gemm-cache", "no meaning with --device cpu"}},
    {"--gemm-cache MISSING/parent/c",
     1,
     {"--gemm-cache MISSING/parent/c", "no directory MISSING/parent", "makes DIR only"}},
    {"--gemm-cache /etc/passwd", 1, {"--gemm-cache /etc/passwd", "is a file", "directory"}},
    {"12", 1, {"unexpected argument '12'"}},
    {"--train-iters ten", 1, {"--train-iters ten", "whole number >= 0"}},
    {"--train-iters 1.5", 1, {"--train-iters 1.5", "whole number"}},
    {"--train-iters", 1, {"--train-iters needs a value: N"}},
    {"--tp 0", 1, {"--tensor-model-parallel-size 0", "from 1 to 1048576", "the nearest is 1"}},
    {"--micro-batch-size -4", 1, {"--micro-batch-size -4", "the nearest is 1"}},
    {"--threads-per-rank 5000", 1, {"--threads-per-rank 5000", "1 to 1024"}},
    {"--lr 0", 1, {"--lr 0", "> 0"}},
    {"--lr nan", 1, {"--lr nan", "expected a number"}},
    {"--adam-beta2 1", 1, {"--adam-beta2 1", "< 1"}},
    {"--hidden-dropout 1.5", 1, {"--hidden-dropout 1.5", ">= 0 and < 1"}},
    {"--optimizer adam", 1, {"--optimizer adam", "{adamw,sgd}", "did you mean adamw?"}},
    {"--schedule 1f2b", 1, {"--schedule 1f2b", "did you mean 1f1b?"}},
    {"--lr-decay-style cosin", 1, {"did you mean cosine?"}},
    {"--model gpt2-124", 1, {"--model gpt2-124", "did you mean gpt2-124m?"}},
    {"--device gpu", 1, {"--device gpu", "{auto,cpu,cuda}", "did you mean cuda?"}},
    {"--device CPU", 1, {"did you mean cpu?"}},
    {"--position-embedding-type rotary", 1, {"did you mean rope?"}},
    {"--global-batch-size 4M", 1, {"--global-batch-size 4M", ", in digits without a unit"}},
    {"--model llama-3b", 1, {"did you mean llama-3.2-3b?"}},
    {"--model meta-llama/Llama-3.1-8B", 1, {"did you mean llama-3.1-8b?"}},
    {"--model qwen-7b", 1, {"did you mean qwen2.5-7b?"}},
    {"--model llama-7b", 1, {"did you mean tiny-llama or llama-1b or llama-8b or llama-70b or "}},
    {"--normalization rmsnorm", 1, {"{LayerNorm,RMSNorm}"}},
    {"--seed 1 --seed 2", 1, {"--seed 1 2: given 2 times"}},
    {"--config MISSING.toml", 1, {"--config MISSING.toml: cannot be read"}},
    // The mesh.
    {"--tp 3 --pp 2 --num-attention-heads 6 --hidden-size 96",
     8,
     {"--tensor-model-parallel-size 3", "8 ranks", "--tp can be 1, 2, 4"}},
    {"--tp 2 --pp 3", 8, {"--pipeline-model-parallel-size 3", "--pp can be 1, 2, 4"}},
    {"--tp 2", 1, {"1 rank of this job", "multiple of 2 ranks"}},
    // Attention.
    {"--attention simt --device cpu", 1, {"--attention simt", "--device cpu"}},
    {"--attention mma", 1, {"attention by mma is for bf16", "--bf16"}},
    {"--attention mma --bf16 --hidden-size 96 --num-attention-heads 2",
     1,
     {"32, 64, 96 or 128", "got 48"}},
    // Batch and schedule.
    {"--global-batch-size 10", 4, {"--global-batch-size 10", "data parallel size 4", "8 or 12"}},
    {"--global-batch-size 8 --micro-batch-size 3", 1, {"--global-batch-size 8", "6 or 9"}},
    {"--global-batch-size 2", 4, {"--global-batch-size 2", "nearest: 4"}},
    {"--pp 2 --num-virtual-stages-per-pipeline-rank 2 --schedule 1f1b",
     2,
     {"--schedule 1f1b", "interleaved"}},
    // The optimizer.
    {"--momentum 0.5", 1, {"--momentum", "--optimizer adamw", "--optimizer sgd"}},
    {"--optimizer sgd --adam-beta1 0.5",
     1,
     {"--adam-beta1", "--optimizer sgd", "--optimizer adamw"}},
    {"--lr 1e-4 --min-lr 1e-3", 1, {"--min-lr 0.001", "at most 0.0001"}},
    {"--train-iters 10 --lr-warmup-iters 20",
     1,
     {"--lr-warmup-iters 20", "--train-iters 10", "at most 10", "short trial",
      "--lr-decay-iters N"}},
    {"--train-iters 10 --lr-decay-iters 15 --lr-warmup-iters 20",
     1,
     {"--lr-warmup-iters 20", "--lr-decay-iters 15", "at most 15"}},
    {"--lr-decay-style constant --lr-decay-iters 50",
     1,
     {"--lr-decay-iters has no meaning with --lr-decay-style constant", "linear, cosine or WSD"}},
    {"--lr-decay-style constant --min-lr 1e-5",
     1,
     {"--min-lr has no meaning with --lr-decay-style constant", "linear, cosine or WSD"}},
    {"--lr-decay-style wsd", 1, {"--lr-decay-style wsd", "{constant,linear,cosine,WSD}"}},
    {"--lr-decay-style WSD --lr-wsd-decay-style sqrt",
     1,
     {"--lr-wsd-decay-style sqrt", "{linear,cosine,exponential,minus_sqrt}", "did you mean"}},
    {"--lr-wsd-decay-iters 5",
     1,
     {"--lr-wsd-decay-iters has no meaning with --lr-decay-style cosine", "--lr-decay-style WSD"}},
    {"--lr-decay-style linear --lr-wsd-decay-style linear",
     1,
     {"--lr-wsd-decay-style has no meaning with --lr-decay-style linear"}},
    {"--lr-decay-style WSD --lr-wsd-decay-iters 0", 1, {"--lr-wsd-decay-iters 0", ">= 1"}},
    {"--lr-decay-style WSD --train-iters 50 --lr-warmup-iters 20 --lr-wsd-decay-iters 31",
     1,
     {"--lr-wsd-decay-iters 31 + --lr-warmup-iters 20", "--lr-decay-iters 50",
      "by default --train-iters", "at most --lr-wsd-decay-iters 30"}},
    // Sizes whose products would not fit.
    {"--hidden-size 1073741824",
     1,
     {"--hidden-size 1073741824", "from 1 to 1048576", "nearest is 1048576"}},
    {"--ffn-hidden-size 9223372036854775807",
     1,
     {"--ffn-hidden-size 9223372036854775807", "the nearest is 16777216"}},
    {"--ffn-hidden-size 72057594037927936",
     1,
     {"--ffn-hidden-size 72057594037927936", "from 1 to 16777216"}},
    {"--ffn-hidden-size 1099511627776",
     1,
     {"--ffn-hidden-size 1099511627776", "nearest is 16777216"}},
    {"--max-position-embeddings 72057594037927936",
     1,
     {"--max-position-embeddings 72057594037927936", "nearest is 2147483648"}},
    {"--max-position-embeddings 2147483649", 1, {"2147483649", "nearest is 2147483648"}},
    {"--vocab-size 72057594037927936",
     1,
     {"--vocab-size 72057594037927936", "nearest is 2147483648"}},
    {"--vocab-size 18014398509481984",
     1,
     {"--vocab-size 18014398509481984", "from 2 to 2147483648"}},
    {"--vocab-size 1099511627776", 1, {"--vocab-size 1099511627776", "nearest is 2147483648"}},
    {"--bucket-size 9223372036854775807", 1, {"--bucket-size 9223372036854775807", "nearest"}},
    {"--bucket-size 4611686018427387904", 1, {"--bucket-size 4611686018427387904", "nearest"}},
    {"--micro-batch-size 9223372036854775807",
     1,
     {"--micro-batch-size 9223372036854775807", "nearest"}},
    {"--micro-batch-size 2097152 --global-batch-size 2097152",
     1,
     {"--micro-batch-size 2097152: at most 1048576"}},
    {"--micro-batch-size 1048576 --global-batch-size 1048576 --seq-length 4096",
     1,
     {"--micro-batch-size 1048576 x --seq-length 4096 are 4294967296 token rows",
      "at most 2147483648"}},
    {"--hidden-size 1048576 --ffn-hidden-size 16777216 --num-layers 10000",
     1,
     {"--num-layers 10000", "--hidden-size 1048576", "parameters; at most 281474976710656"}},
    {"--hidden-size 65536 --seq-length 1073741824",
     1,
     {"--seq-length 1073741824", "--hidden-size 65536", "activations; at most 1e+14"}},
    {"--num-layers 1000000", 1, {"--num-layers 1000000", "from 1 to 10000"}},
    {"--num-layers 9223372036854775807",
     1,
     {"--num-layers 9223372036854775807", "nearest is 10000"}},
    {"--tp 9223372036854775807", 1, {"--tensor-model-parallel-size 9223372036854775807"}},
    {"--global-batch-size 4611686018427387904", 1, {"--global-batch-size 4611686018427387904"}},
    {"--global-batch-size 1000000000",
     1,
     {"--global-batch-size 1000000000 gives each data rank 1000000000 micro-batches",
      "a schedule of 1 stage has at most 1048576", "at most 1048576, or a larger"}},
    {"--global-batch-size 1600000 --pp 2",
     4,
     {"800000 micro-batches", "2 stages has at most 524288", "a batch of at most 1048576"}},
    {"--train-iters 1099511627776 --global-batch-size 2097152 --micro-batch-size 2",
     1,
     {"--train-iters 1099511627776 x --global-batch-size 2097152", "at most --train-iters"}},
    // Numbers that are used in fp32.
    {"--adam-eps 1e-300", 1, {"--adam-eps 1e-300", "> 0", "fp32", "1.4e-45 to 3.4e+38"}},
    {"--adam-eps 1e-46", 1, {"--adam-eps 1e-46", "fp32"}},
    {"--adam-eps 1e300", 1, {"--adam-eps 1e300", "fp32"}},
    {"--lr 1e-60", 1, {"--lr 1e-60", "fp32"}},
    {"--weight-decay 1e39", 1, {"--weight-decay 1e39", ">= 0", "fp32"}},
    {"--norm-epsilon 1e-60", 1, {"--norm-epsilon 1e-60", "fp32"}},
    {"--rotary-base 1e60 --position-embedding-type rope", 1, {"--rotary-base 1e60", "fp32"}},
    // The model.
    {"--num-layers 2 --pp 4", 4, {"--num-layers 2", "4 stages", "at least 4"}},
    {"--hidden-size 100 --num-attention-heads 3",
     1,
     {"--hidden-size 100", "--num-attention-heads 3"}},
    {"--num-attention-heads 4 --num-query-groups 3", 1, {"--num-query-groups 3"}},
    {"--tp 8", 8, {"--num-attention-heads 4"}},
    {"--ffn-hidden-size 101 --tp 2", 2, {"--ffn-hidden-size 101"}},
    {"--max-position-embeddings 64 --seq-length 128", 1, {"--max-position-embeddings 64", "128"}},
    {"--position-embedding-type rope --max-position-embeddings 256",
     1,
     {"--max-position-embeddings has no meaning"}},
    {"--sequence-parallel --tp 2 --seq-length 33 --max-position-embeddings 33",
     2,
     {"--seq-length 33"}},
    // Output and generation.
    {"--metrics MISSING/m.jsonl", 1, {"--metrics MISSING/m.jsonl", "no directory MISSING"}},
    {"--profile-ops MISSING/p.json", 1, {"--profile-ops MISSING/p.json", "no directory MISSING"}},
    {"--profile-ops /", 1, {"--profile-ops /", "is a directory"}},
    {"--profile-step 3", 1, {"--profile-step 3", "no meaning without --profile-ops"}},
    {"--profile-ops p.json --profile-step 30 --train-iters 20",
     1,
     {"--profile-step 30", "beyond --train-iters 20", "at most 20"}},
    {"--profile-ops p.json --train-iters 0", 1, {"--profile-ops p.json", "--train-iters 0"}},
    {"--profile-ops p.json --profile-step 0", 1, {"--profile-step 0", ">= 1"}},
    {"--metrics /", 1, {"--metrics /", "is a directory"}},
    {"--generate 10 --vocab-size 300", 1, {"--generate 10", "--vocab-size 256"}},
    {"--prompt Hello", 1, {"--prompt", "--generate"}},
    // Checkpoints: what means nothing alone.
    {"--save-interval 10", 1, {"--save-interval has no meaning without --save", "add --save DIR"}},
    {"--save-interval-seconds 60", 1, {"--save-interval-seconds has no meaning without --save"}},
    {"--no-async-save", 1, {"--no-async-save has no meaning without --save"}},
    {"--save-buffer 64M", 1, {"--save-buffer has no meaning without --save"}},
    {"--keep-last 2", 1, {"--keep-last has no meaning without --save"}},
    {"--save-retain-interval 10", 1, {"--save-retain-interval has no meaning without --save"}},
    {"--exit-duration-seconds 5", 1, {"--exit-duration-seconds has no meaning without --save"}},
    {"--ckpt-step 10", 1, {"--ckpt-step has no meaning without --load", "add --load DIR"}},
    {"--finetune", 1, {"--finetune has no meaning without --load"}},
    {"--no-load-optim", 1, {"--no-load-optim has no meaning without --load"}},
    {"--exit-on-missing-checkpoint", 1, {"--exit-on-missing-checkpoint has no meaning"}},
    {"--save /tmp/c --save-interval 5 --save-retain-interval 10",
     1,
     {"--save-retain-interval 10", "--keep-last N"}},
    {"--save /tmp/c --keep-last 2 --save-retain-interval 10",
     1,
     {"--save-retain-interval 10", "--save-interval 10"}},
    {"--save /tmp/c --keep-last 2 --save-interval 4 --save-retain-interval 10",
     1,
     {"--save-retain-interval 10", "--save-interval 4", "nearest: 8 or 12"}},
    {"--save /tmp/c --async-save --no-async-save", 1, {"--async-save and --no-async-save"}},
    // Checkpoints: values.
    {"--save /tmp/c --save-interval 0", 1, {"--save-interval 0", ">= 1", "the nearest is 1"}},
    {"--save /tmp/c --save-interval-seconds 0", 1, {"--save-interval-seconds 0", "> 0"}},
    {"--max-skipped 0", 1, {"--max-skipped 0", ">= 1", "the nearest is 1"}},
    {"--save /tmp/c --keep-last 0", 1, {"--keep-last 0", ">= 1", "the nearest is 1"}},
    {"--save /tmp/c --save-buffer 512MB", 1, {"--save-buffer 512MB", "such as 512M"}},
    {"--save /tmp/c --save-buffer 1M", 1, {"--save-buffer 1M", "expected a size >= 2M"}},
    {"--save /tmp/c --exit-duration-seconds 0", 1, {"--exit-duration-seconds 0", "> 0"}},
    {"--load /tmp --ckpt-step -1", 1, {"--ckpt-step -1", ">= 0"}},
    // Checkpoints: places.
    {"--save MISSING/parent/c", 1, {"--save MISSING/parent/c", "no directory MISSING/parent"}},
    {"--save MISSING/c/", 1, {"no directory MISSING;"}},
    {"--save /etc/passwd", 1, {"--save /etc/passwd", "is a file", "directory"}},
    {"--load /etc/passwd", 1, {"--load /etc/passwd", "is a file", "directory of checkpoints"}},
    {"--load MISSING --ckpt-step 3", 1, {"--load MISSING", "no such directory", "--ckpt-step"}},
    {"--load MISSING --finetune", 1, {"--load MISSING", "--finetune"}},
    {"--load MISSING --exit-on-missing-checkpoint",
     1,
     {"--load MISSING", "--exit-on-missing-checkpoint"}},
    {"--save /tmp --load /tmp/../tmp/ --finetune",
     1,
     {"--finetune", "--load /tmp/../tmp/", "another --save"}},
};
INSTANTIATE_TEST_SUITE_P(Table, Gate, testing::ValuesIn(wrong_lines));

TEST(GateAsAWhole, TheDefaultsCanRun) {
  EXPECT_THAT(problems_of_line("", 1), ElementsAre());
  EXPECT_THAT(problems_of_line("", 8), ElementsAre());
  EXPECT_THAT(problems_of_line("--tp 2 --pp 2", 8), ElementsAre());
}

TEST(GateAsAWhole, NumbersAtTheEndsOfFp32CanBeUsed) {
  EXPECT_THAT(problems_of_line("--adam-eps 1e-45 --lr 3e38 --weight-decay 0 --min-lr 1e-45", 1),
              ElementsAre());
}

TEST(GateAsAWhole, ARunOfNoStepsAndAConstantRateTakeAnyWarmUp) {
  for (const char* line : {"--train-iters 0 --lr-warmup-iters 20",
                           "--train-iters 5 --lr-warmup-iters 20 --lr-decay-iters 20",
                           "--train-iters 5 --lr-warmup-iters 20 --lr-decay-style constant",
                           "--train-iters 0 --lr-warmup-iters 20 --lr-decay-style WSD",
                           "--train-iters 20 --lr-warmup-iters 20 --lr-decay-style WSD"})
    EXPECT_THAT(problems_of_line(line, 1), ElementsAre()) << line;
}

TEST(GateAsAWhole, CheckpointsCanBeSavedAndLoaded) {
  const ScratchDirectory folder;
  for (const char* line :
       {"--save /tmp/new", "--save /tmp/new/ --load /tmp/new", "--load MISSING",
        "--save /tmp/new --metrics /tmp/new/steps.jsonl", "--save new",
        "--save /tmp/new --save-interval 5 --keep-last 2 --save-retain-interval 10",
        "--save /tmp/new --save-interval-seconds 0.5 --no-async-save --save-buffer 2M",
        "--save /tmp/new --exit-duration-seconds 3600 --async-save",
        "--load /tmp --finetune --no-load-optim --save /tmp/new", "--load /tmp --ckpt-step 0"})
    EXPECT_THAT(problems_of_line(with_missing(line, folder), 1), ElementsAre()) << line;
}

TEST(GateAsAWhole, ADirectoryThatCannotBeWrittenToIsNoPlaceForCheckpoints) {
  const ScratchDirectory folder;
  const std::string& directory = folder.path();
  std::filesystem::permissions(directory, std::filesystem::perms(0555));
  // Root may write everywhere: a process of its own becomes somebody else.
  EXPECT_EXIT(
      {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(1);
        for (const std::string& save : {directory, directory + "/new"})
          for (const std::string& problem : problems_of_line("--save " + save, 1))
            std::cerr << problem << "\n";
        _exit(0);
      },
      testing::ExitedWithCode(0),
      "--save " + directory + ": the directory " + directory + " cannot be written to\n--save " +
          directory + "/new: the directory " + directory + " cannot be written to");
}

TEST(GateAsAWhole, MetricsGoWithTheCheckpointsUnlessTheyHaveAPlace) {
  const auto metrics = [](std::vector<const char*> words) {
    words.insert(words.begin(), "train_gpt");
    Options options;
    CommandLine command("train_gpt", "");
    declare_options(command, options);
    test::RecordedProblems problems;
    command.parse(static_cast<int>(words.size()), words.data(), problems);
    derive_defaults(command, options);
    return options.metrics;
  };
  EXPECT_EQ(metrics({}), "");
  EXPECT_EQ(metrics({"--save", "/tmp/c"}), "/tmp/c/metrics.jsonl");
  EXPECT_EQ(metrics({"--save", "/tmp/c/"}), "/tmp/c/metrics.jsonl");
  EXPECT_EQ(metrics({"--save", "/tmp/c", "--metrics", "m"}), "m");
}

TEST(GateAsAWhole, ReportsAllMistakesAtOnce) {
  const auto problems = problems_of_line(
      "--trian-iters 5 --lr x --tp 3 --hidden-size 100 --num-attention-heads 3 --global-batch-size "
      "0",
      8);
  EXPECT_EQ(problems.size(), 6u) << testing::PrintToString(problems);
}

TEST(GateAsAWhole, AnUnknownOptionMayHaveMeantAnotherKindOfPositions) {
  const std::string problem = "unknown option --use-rotary-position-embeddings";
  EXPECT_THAT(problems_of_line("--use-rotary-position-embeddings --rotary-base 10000", 1),
              ElementsAre(HasSubstr(problem)));
  EXPECT_THAT(
      problems_of_line("--use-rotary-position-embeddings --model gpt2-124m --seq-length 2048", 1),
      ElementsAre(HasSubstr(problem)));
}

TEST(GateAsAWhole, ARefusedKindOfPositionsIsTheOnlyMistakeAboutPositions) {
  for (const std::string kind : {"--position-embedding-type NONSENSE", "--model NONSENSE"})
    for (const char* more : {" --rotary-base 5e5", " --max-position-embeddings 64"})
      EXPECT_THAT(problems_of_line(kind + more, 1), ElementsAre(HasSubstr(kind)));
}

TEST(GateAsAWhole, AnUnknownOptionOfAFileMayHaveMeantAnotherKindOfPositions) {
  const ScratchDirectory folder;
  const std::string file =
      folder.write("c.toml", "use-rotary-position-embeddings = true\nrotary-base = 10000\n");
  EXPECT_THAT(problems_of_line("--config " + file, 1),
              ElementsAre(HasSubstr("unknown option use-rotary-position-embeddings")));
}

TEST(GateAsAWhole, APresetIsRefinedByOptionsBeforeAndAfterIt) {
  Options options;
  GptOptions gpt;
  CommandLine command("train_gpt", "");
  declare_options(command, options);
  declare_gpt_options(command, options, gpt);
  test::RecordedProblems problems;
  const char* words[] = {"train_gpt", "--num-layers", "3", "--model", "gpt2-124m"};
  command.parse(5, words, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(gpt.model.num_layers, 3);
  EXPECT_EQ(gpt.model.hidden_size, 768);
}

TEST(GateAsAWhole, SeveralVirtualStagesAreInterleavedByDefault) {
  EXPECT_THAT(
      problems_of_line("--pp 2 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 4", 2),
      ElementsAre());
}

}  // namespace
}  // namespace trireme
