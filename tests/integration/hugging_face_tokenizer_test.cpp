// The tokenizer of a Hugging Face model on its way into a run and out of it, as users start it.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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
  std::string refused_export(const std::string& words) const {
    const Outcome outcome =
        jobs_.run(CheckpointJobs::trireme("hf export " + words + " --output " + (jobs_ / "no")));
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_FALSE(std::filesystem::exists(jobs_ / "no"));
    return outcome.output;
  }

  CheckpointJobs jobs_{"--seq-length 24 --lr 1e-3"};
  ScratchDirectory model_;
  const SmallTokenizer own_ = SmallTokenizer().add("<s>").add("</s>");
  std::string hash_, other_hash_;
  const std::string run_ = jobs_ / "run", out_ = jobs_ / "out";
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
  std::filesystem::create_directory(jobs_ / "copy");
  add_tokenizer(jobs_ / "copy", own_);
  EXPECT_THAT(refused_export(run_ + " --tokenizer " + (jobs_ / "copy")),
              HasSubstr("cannot be compared with the one that the run began with: "));
  trireme("hf export " + (jobs_ / "tuned") + " --tokenizer " + (jobs_ / "copy") + " --output " +
          out_);
  EXPECT_EQ(data::Tokenizer::load(out_).hash(), hash_);
}

TEST_F(HfTokenizer, OfARunFromNothingIsExportedWhereItIsGiven) {
  const std::string tiny = "--model tiny-llama --num-layers 1 --hidden-size 32 --vocab-size 258 ";
  expect_trained(train("mine", tiny + "--train-iters 1 --save " + run_));
  const std::string without = trireme("hf export " + run_ + " --output " + out_);
  EXPECT_THAT(without, HasSubstr("no tokenizer was written, as the run keeps none; its data has "
                                 "tokens of tokenizer " +
                                 hash_));
  EXPECT_THAT(without, HasSubstr("give --tokenizer DIR"));
  model_.write("tokenizer_config.json", "{\"eos_token\": \"</s>\"}");
  model_.write("LICENSE", "of other weights");
  const auto with = [&](const std::string& name, const std::string& path) {
    const std::string out = jobs_ / name;
    EXPECT_THAT(trireme("hf export " + run_ + " --tokenizer " + path + " --output " + out),
                Not(HasSubstr("no tokenizer")));
    EXPECT_EQ(data::Tokenizer::load(out).hash(), hash_);
    EXPECT_TRUE(std::filesystem::exists(out + "/tokenizer_config.json"));
    EXPECT_FALSE(std::filesystem::exists(out + "/LICENSE"));
    return nlohmann::json::parse(read_text(out + "/config.json"));
  };
  EXPECT_EQ(with("a", model_.path())["eos_token_id"], 257);
  EXPECT_EQ(with("b", model_.path() + "/tokenizer.json")["bos_token_id"], 256);
  EXPECT_TRUE(nlohmann::json::parse(read_text(out_ + "/config.json"))["eos_token_id"].is_null());
  EXPECT_THAT(refused_export(run_ + " --tokenizer " + (jobs_ / "other")),
              HasSubstr("is " + other_hash_ + ", but the tokens of the data of " + run_ +
                        "/step-000001 are those of tokenizer " + hash_ + "; give that one"));
  EXPECT_THAT(refused_export(run_ + " --tokenizer " + text),
              HasSubstr("the file is not named tokenizer.json"));
  EXPECT_THAT(refused_export(run_ + " --tokenizer " + (jobs_ / "none")), HasSubstr("none"));
}

TEST_F(HfTokenizer, OfARunOnBytesIsNone) {
  const std::string tiny = "--model tiny-llama --num-layers 1 --hidden-size 32 ";
  expect_trained(train("data", tiny + "--train-iters 1 --save " + run_));
  EXPECT_THAT(trireme("hf export " + run_ + " --output " + out_),
              HasSubstr("no tokenizer was written: tokens of this run are bytes"));
  EXPECT_THAT(refused_export(run_ + " --tokenizer " + model_.path()),
              HasSubstr("/step-000001 are bytes; leave it out"));
}

TEST_F(HfTokenizer, OfTheModelThatARunBeganWithIsNotReplacedByAnother) {
  std::filesystem::remove(jobs_ / "mine.json");
  model_.write("tokenizer.model.v3", "of the model");
  model_.write("LICENSE", "of the weights");
  expect_trained(train("mine", "--load-hf " + model_.path() + " --train-iters 1 --save " + run_));
  EXPECT_THAT(refused_export(run_ + " --tokenizer " + (jobs_ / "other")),
              HasSubstr("but the run began with tokenizer " + hash_ + " (" + run_ +
                        "/hf/tokenizer.json); leave --tokenizer out"));
  std::filesystem::remove(model_ / "tokenizer.model.v3");
  trireme("hf export " + run_ + " --tokenizer " + model_.path() + " --output " + out_);
  EXPECT_EQ(read_text(out_ + "/LICENSE"), "of the weights");
  EXPECT_TRUE(std::filesystem::exists(out_ + "/tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(out_ + "/tokenizer.model.v3"));
  trireme("hf export " + run_ + " --output " + out_ + "2");  // what the run has kept
  EXPECT_TRUE(std::filesystem::exists(out_ + "2/tokenizer.model.v3"));
  // Nothing but the number of tokens is known of this run.
  std::filesystem::remove_all(run_ + "/hf");
  add_tokenizer(jobs_ / "other", SmallTokenizer().merge("a", "b").add("<1>").add("<2>"));
  EXPECT_THAT(refused_export(run_ + " --tokenizer " + (jobs_ / "other")),
              HasSubstr("has 259 tokens, more than the 258 of the model of "));
}

}  // namespace
}  // namespace trireme::test
