// The tokenizer of a Hugging Face model on its way into a run, as users start it.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/inspect/inspect.h"
#include "tests/data/tokenizer/small_tokenizer.h"
#include "tests/interop/toy_model.h"
#include "tests/support/checkpoint_jobs.h"

namespace trireme::test {
namespace {

using data::SmallTokenizer;
using testing::HasSubstr;
using testing::Not;

const std::string text = "/usr/share/common-licenses/Apache-2.0";

std::string tokenizer_of(const std::string& step) {
  const OpenedStep opened = open_step(step);
  const std::string* fact = opened.manifest.identity_of("data/tokenizer");
  return fact == nullptr ? "none" : *fact;
}

/// A model with a tokenizer, another such tokenizer, and data of both.
class HfTokenizer : public testing::Test {
 protected:
  HfTokenizer() {
    const std::string config =
        R"({"model_type":"llama","vocab_size":258,"hidden_size":48,"num_hidden_layers":1,)"
        R"("num_attention_heads":4,"intermediate_size":96,"max_position_embeddings":64})";
    write_model(model_, config, toy_model(config, "F32"), 1);
    hash_ = add_tokenizer(model_.path(), own_);
    std::filesystem::create_directory(jobs_ / "other");
    other_hash_ = add_tokenizer(jobs_ / "other", SmallTokenizer().merge("a", "b"));
    prepare("mine", model_.path());
    prepare("others", jobs_ / "other");
  }
  static std::string add_tokenizer(const std::string& directory, const SmallTokenizer& tokenizer) {
    std::ofstream(directory + "/tokenizer.json") << tokenizer.json();
    return data::Tokenizer::load(directory).hash();
  }
  void prepare(const std::string& name, const std::string& tokenizer) const {
    trireme("data prepare --input " + text + " --tokenizer " + tokenizer + " --output " +
            (jobs_ / name));
  }
  std::string trireme(const std::string& words) const {
    return jobs_.succeed(CheckpointJobs::trireme(words));
  }
  Outcome train(const std::string& data, const std::string& options) {
    jobs_.data = jobs_ / data;
    return jobs_.run(jobs_.training({"one rank", 1, "--micro-batch-size 4"}, options));
  }
  void expect_trained(const Outcome& outcome) const {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
  /// With one line, which says `what`.
  void expect_refused(const Outcome& outcome, const std::string& what) const {
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(what));
    EXPECT_THAT(outcome.output, Not(HasSubstr("problems")));
  }

  CheckpointJobs jobs_{"--seq-length 24 --lr 1e-3"};
  ScratchDirectory model_;
  const SmallTokenizer own_ = SmallTokenizer().add("<s>").add("</s>");
  std::string hash_, other_hash_;
  const std::string run_ = jobs_ / "run";
};

TEST_F(HfTokenizer, OfAModelThatWasImportedIsThatOfTheData) {
  trireme("hf import " + model_.path() + " --output " + run_);
  EXPECT_EQ(tokenizer_of(run_ + "/step-000000"), hash_);
  const std::string begin = "--load " + run_ + " --use-checkpoint-args ";
  const std::string finetune = begin + "--finetune --train-iters 1 --save " + (jobs_ / "tuned");
  const std::string different = "data: tokenizer is " + other_hash_ + " here and " + hash_ +
                                " in the checkpoint; the file is " + (jobs_ / "others.json") +
                                "; the tokens must be those of --tokenizer " + run_ + "/hf";
  expect_refused(train("others", finetune), different);
  expect_refused(train("others", begin + "--skip-train --split 0,1"), different);
  EXPECT_FALSE(std::filesystem::exists(jobs_ / "tuned/step-000001"));
  expect_trained(train("mine", finetune));
  EXPECT_EQ(tokenizer_of(jobs_ / "tuned/step-000001"), hash_);
  const auto generate = [&](const std::string& tokenizer) {
    return jobs_.run("timeout 120 " TRIREME_BIN_DIR "/train_gpt " + begin +
                     "--generate 2 --tokenizer " + tokenizer);
  };
  expect_refused(generate(jobs_ / "other"), "data: tokenizer is " + other_hash_ + " here and ");
  expect_trained(generate(model_.path()));
}

// Data without a sidecar says nothing of its tokenizer, and so the checkpoint says nothing.
TEST_F(HfTokenizer, ThatTheRunKeepsIsThatOfTheDataWhereTheCheckpointNamesNone) {
  std::filesystem::remove(jobs_ / "mine.json");
  expect_trained(train("mine", "--load-hf " + model_.path() + " --train-iters 1 --save " + run_));
  EXPECT_EQ(tokenizer_of(run_ + "/step-000001"), "none");
  const std::string begin = "--load " + run_ + " --use-checkpoint-args ";
  const std::string finetune = begin + "--finetune --train-iters 1 --save " + (jobs_ / "tuned");
  expect_refused(train("others", finetune),
                 "data: tokenizer is " + other_hash_ + " here (" + (jobs_ / "others.json") +
                     ") and " + hash_ + " in " + run_ +
                     "/hf/tokenizer.json, which is that of "
                     "the model; the tokens must be those of --tokenizer " +
                     run_ + "/hf");
  prepare("mine", model_.path());
  expect_trained(train("mine", finetune));
}

TEST_F(HfTokenizer, ThatCannotBeReadDoesNotStopAnImport) {
  model_.write("tokenizer.json", "{}");
  EXPECT_THAT(trireme("hf import " + model_.path() + " --output " + run_),
              HasSubstr("note: data of another tokenizer will not be refused: "));
  EXPECT_EQ(tokenizer_of(run_ + "/step-000000"), "none");
  const Outcome tuned = train("mine", "--load " + run_ + " --use-checkpoint-args --finetune " +
                                          "--train-iters 1 --save " + (jobs_ / "tuned"));
  expect_trained(tuned);
  EXPECT_THAT(tuned.output, HasSubstr("the tokenizer of the model cannot be compared"));
}

}  // namespace
}  // namespace trireme::test
