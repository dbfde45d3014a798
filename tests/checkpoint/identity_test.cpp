// What makes a checkpoint another job's, as sentences.
#include "runtime/checkpoint/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/models/transformer_config.h"

namespace trireme::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// One parameter "w" with AdamW's moments, and the scalars.
Manifest job(const Shape& shape = {4, 8}, DType dtype = DType::f32) {
  Manifest manifest;
  for (const char* name : {"optimizer/first_moment/w", "optimizer/second_moment/w", "parameters/w"})
    manifest.tensors.push_back({name, dtype, shape, {}});
  manifest.tensors.push_back({"state/step", DType::i64, {}, {}});
  manifest.identity = {{"model/--num-attention-heads", "4"},
                       {"training/--seed", "1"},
                       {"training/--optimizer", "adamw"},
                       {"data/train tokens", "0 to 10 of 10"}};
  return manifest;
}

std::vector<std::string> compare(const Manifest& checkpoint, const Manifest& here,
                                 LoadScope scope = LoadScope::everything) {
  return differences(checkpoint, here, here.identity, scope);
}

// All later releases read a released format: these are the facts in checkpoints of version 0.1.
TEST(CheckpointerIdentity, OfAModelIsThatOfEarlierVersions) {
  EXPECT_EQ(model_identity(preset("gpt2-124m").identity()),
            (KeyValues{{"model/--num-layers", "12"},
                       {"model/--hidden-size", "768"},
                       {"model/--ffn-hidden-size", "3072"},
                       {"model/--num-attention-heads", "12"},
                       {"model/--num-query-groups", "12"},
                       {"model/--vocab-size", "50257"},
                       {"model/--normalization", "LayerNorm"},
                       {"model/--norm-epsilon", "1e-05"},
                       {"model/--activation", "gelu-tanh"},
                       {"model/--position-embedding-type", "learned"},
                       {"model/--disable-bias-linear", "false"},
                       {"model/--untie-embeddings-and-output-weights", "false"},
                       {"model/--max-position-embeddings", "1024"}}));
  EXPECT_EQ(model_identity(preset("llama-8b").identity()),
            (KeyValues{{"model/--num-layers", "32"},
                       {"model/--hidden-size", "4096"},
                       {"model/--ffn-hidden-size", "14336"},
                       {"model/--num-attention-heads", "32"},
                       {"model/--num-query-groups", "8"},
                       {"model/--vocab-size", "128256"},
                       {"model/--normalization", "RMSNorm"},
                       {"model/--norm-epsilon", "1e-05"},
                       {"model/--activation", "swiglu"},
                       {"model/--position-embedding-type", "rotary"},
                       {"model/--disable-bias-linear", "true"},
                       {"model/--untie-embeddings-and-output-weights", "true"},
                       {"model/--rotary-base", "500000"}}));
}

// A checkpoint without a fact has what was there before the option; one with it is not taken for
// one without.
TEST(CheckpointerIdentity, ScaledPositionsAreAnotherModelInBothDirections) {
  const KeyValues plain = model_identity(preset("llama-8b").identity()),
                  scaled = model_identity(preset("llama-3.1-8b").identity());
  Manifest old = job(), later = job();
  old.identity = plain;
  later.identity = scaled;
  EXPECT_THAT(differences(old, old, plain, LoadScope::parameters, {}), IsEmpty());
  EXPECT_THAT(differences(later, later, scaled, LoadScope::parameters, {}), IsEmpty());
  EXPECT_THAT(differences(old, old, scaled, LoadScope::parameters, {}),
              ::testing::Contains("--rope-type is llama3 here; the checkpoint says nothing of it"));
  EXPECT_THAT(differences(later, later, plain, LoadScope::parameters, {}),
              ::testing::Contains("--rope-type is llama3 in the checkpoint; this job has none"));
}

TEST(CheckpointerIdentity, TheSameJobHasNoDifferences) {
  for (const LoadScope scope :
       {LoadScope::everything, LoadScope::without_optimizer, LoadScope::parameters})
    EXPECT_THAT(compare(job(), job(), scope), IsEmpty());
}

TEST(CheckpointerIdentity, ShapesAndTypesOfParametersAreComparedAndTheirMomentsNotNamedAgain) {
  EXPECT_THAT(
      compare(job({4, 6}), job()),
      ElementsAre("tensor parameters/w is f32 (4, 8) here and f32 (4, 6) in the checkpoint"));
  EXPECT_THAT(
      compare(job({4, 8}, DType::f64), job()),
      ElementsAre("tensor parameters/w is f32 (4, 8) here and f64 (4, 8) in the checkpoint"));
}

TEST(CheckpointerIdentity, WhatIsFrozenHereNeedsNoMomentsAndMayBeInBf16) {
  Manifest frozen = job();
  for (const char* moment : {"optimizer/first_moment/v", "optimizer/second_moment/v"})
    frozen.tensors.push_back({moment, DType::f32, {2}, {}});
  frozen.tensors.push_back({"parameters/v", DType::f32, {2}, {}});
  const Manifest all = frozen;
  std::erase_if(frozen.tensors, [](const auto& each) { return each.name.ends_with("moment/w"); });
  frozen.tensors.front().dtype = DType::bf16;
  ASSERT_EQ(frozen.tensors.front().name, "parameters/w");
  EXPECT_THAT(compare(all, frozen), IsEmpty());
  EXPECT_THAT(compare(frozen, frozen), IsEmpty());
  EXPECT_THAT(compare(frozen, all, LoadScope::without_optimizer), IsEmpty());
  EXPECT_THAT(compare(frozen, all),
              ElementsAre("the checkpoint has no optimizer state of w, frozen when it was saved: "
                          "give --freeze again, or --no-load-optim, which lets the state of all "
                          "begin at 0"));
}

TEST(CheckpointerIdentity, WhatAFrozenPartLosesIsSaid) {
  Manifest all = job(), here = job();
  for (const char* name : {"parameters/a", "parameters/b"}) {
    all.tensors.push_back({name, DType::f32, {4}, {}});
    here.tensors.push_back({name, DType::bf16, {4}, {}});
  }
  EXPECT_EQ(describe_rounded(all, here),
            "parameters/a and 1 more tensor are rounded from fp32 to bf16, as frozen parts are "
            "kept and saved");
  all.tensors.back().dtype = DType::bf16;  // as it was saved
  EXPECT_EQ(describe_rounded(all, here),
            "parameters/a is rounded from fp32 to bf16, as frozen parts are kept and saved");
  EXPECT_EQ(describe_rounded(here, here), "");
  EXPECT_EQ(describe_rounded(here, all), "");
  for (Manifest::Tensor& tensor : here.tensors) tensor.dtype = DType::bf16;  // a forward pass
  EXPECT_EQ(describe_rounded(all, here), "");
}

TEST(CheckpointerIdentity, ADifferenceOfAMomentAloneIsNamed) {
  Manifest checkpoint = job();
  checkpoint.tensors[0].global = {8, 4};
  EXPECT_THAT(compare(checkpoint, job()),
              ElementsAre("tensor optimizer/first_moment/w is f32 (4, 8) here and f32 (8, 4) in "
                          "the checkpoint"));
  EXPECT_THAT(compare(checkpoint, job(), LoadScope::without_optimizer), IsEmpty());
}

TEST(CheckpointerIdentity, MissingAndExtraTensorsAreNamed) {
  Manifest checkpoint = job();
  checkpoint.tensors[2].name = "parameters/v";
  checkpoint.tensors.pop_back();
  EXPECT_THAT(compare(checkpoint, job(), LoadScope::without_optimizer),
              ElementsAre("tensor parameters/w f32 (4, 8) is not in the checkpoint",
                          "tensor parameters/v f32 (4, 8) of the checkpoint is not in this model",
                          "tensor state/step i64 () is not in the checkpoint"));
}

TEST(CheckpointerIdentity, OfManyTensorsTheFirstAreNamedAfterTheModelOfTheCheckpoint) {
  Manifest checkpoint = job(), here = job();
  checkpoint.options = {{"--model", "tiny-llama"}, {"--num-layers", "2"}, {"--hidden-size", "128"}};
  for (int i = 0; i < 10; ++i)
    here.tensors.push_back({str("parameters/block.", i), DType::f32, {4}, {}});
  const auto all = compare(checkpoint, here, LoadScope::parameters);
  ASSERT_EQ(all.size(), 7u) << ::testing::PrintToString(all);
  EXPECT_EQ(all[0],
            "the checkpoint's model is: --model tiny-llama --num-layers 2 ('trireme checkpoint "
            "show' has all options); --use-checkpoint-args takes it from there");
  EXPECT_EQ(all[1], "tensor parameters/block.0 f32 (4) is not in the checkpoint");
  EXPECT_EQ(all[6], "and 5 more tensors differ");
}

TEST(CheckpointerIdentity, AnotherFactOfTheModelAloneShowsTheModelAndOtherFactsDoNot) {
  Manifest checkpoint = job();
  checkpoint.options = {{"--model", "tiny"}};
  checkpoint.identity[1].second = "2";  // the seed
  EXPECT_THAT(compare(checkpoint, job()), ElementsAre(::testing::HasSubstr("--seed is 1 here")));
  checkpoint.identity[0].second = "8";
  EXPECT_THAT(compare(checkpoint, job(), LoadScope::parameters),
              ElementsAre(::testing::HasSubstr("the checkpoint's model is: --model tiny ("),
                          ::testing::HasSubstr("--num-attention-heads is 4 here and 8")));
}

TEST(CheckpointerIdentity, KindsOfPositionsHaveTheWordsOfTheirOption) {
  Manifest checkpoint = job(), here = job();
  checkpoint.identity = {{"model/--position-embedding-type", "rotary"}};
  here.identity = {{"model/--position-embedding-type", "learned"}};
  EXPECT_THAT(
      compare(checkpoint, here),
      ElementsAre("--position-embedding-type is learned_absolute here and rope in the checkpoint"));
}

const std::string data_remedy =
    "this is other data than the checkpoint was trained on: prepare that again, or name it by "
    "--data-path; --finetune trains its weights on other data";

TEST(CheckpointerIdentity, EachScopeComparesTheFactsItNeeds) {
  Manifest checkpoint = job();
  for (auto& [name, value] : checkpoint.identity) value += "0";
  const std::string model = "--num-attention-heads is 4 here and 40 in the checkpoint",
                    seed = "--seed is 1 here and 10 in the checkpoint",
                    optimizer = "--optimizer is adamw here and adamw0 in the checkpoint",
                    data =
                        "data: train tokens is 0 to 10 of 10 here and 0 to 10 of 100 in the "
                        "checkpoint";
  EXPECT_THAT(compare(checkpoint, job()), ElementsAre(model, seed, optimizer, data, data_remedy));
  EXPECT_THAT(compare(checkpoint, job(), LoadScope::without_optimizer),
              ElementsAre(model, seed, data, data_remedy));
  EXPECT_THAT(compare(checkpoint, job(), LoadScope::parameters), ElementsAre(model));
}

TEST(CheckpointerIdentity, FactsOfOneSideAreDifferences) {
  Manifest less = job();
  less.identity.pop_back();
  EXPECT_THAT(compare(less, job()), ElementsAre("data: train tokens is 0 to 10 of 10 here; the "
                                                "checkpoint says nothing of it",
                                                data_remedy));
  EXPECT_THAT(compare(job(), less), ElementsAre("data: train tokens is 0 to 10 of 10 in the "
                                                "checkpoint; this job has none",
                                                data_remedy));
}

TEST(CheckpointerIdentity, AnotherContentIsNamedWithItsFileAndOldCheckpointsNeedNotHaveIt) {
  Manifest here = job(), other = job();
  here.identity.emplace_back("data/train content", "12ab");
  other.identity.emplace_back("data/train content", "34cd");
  EXPECT_THAT(differences(other, here, here.identity, LoadScope::everything,
                          {{"data/train content", "/corpus.bin"}}),
              ElementsAre("data: train content is 12ab here and 34cd in the checkpoint; the file "
                          "is /corpus.bin",
                          data_remedy));
  EXPECT_THAT(compare(job(), here), IsEmpty());
  EXPECT_THAT(compare(other, here, LoadScope::parameters), IsEmpty());
}

TEST(CheckpointerIdentity, AnotherComputeTypeIsSaid) {
  EXPECT_EQ(option_differences({{"--bf16", "true"}}, {{"--bf16", "false"}}),
            "--bf16 true (was false)");
}

TEST(CheckpointerIdentity, OptionsThatDifferAreListedExceptThoseThatOnlySayWhereOrWhatIsPrinted) {
  EXPECT_EQ(option_differences({{"--lr", "0.1"},
                                {"--seed", "1"},
                                {"--save", "b"},
                                {"--log-interval", "2"},
                                {"--new", "1"},
                                {"--tp", "2"}},
                               {{"--lr", "0.2"},
                                {"--seed", "1"},
                                {"--save", "a"},
                                {"--log-interval", "1"},
                                {"--tp", "1"}}),
            "--lr 0.1 (was 0.2), --tp 2 (was 1)");
}

TEST(CheckpointerIdentity, AnOptionWithoutAValueIsListedAsSuch) {
  EXPECT_EQ(option_differences({{"--optimizer-shares", ""}, {"--stage-speeds", "2,1"}},
                               {{"--optimizer-shares", "3,1"}, {"--stage-speeds", ""}}),
            "--optimizer-shares - (was 3,1), --stage-speeds 2,1 (was -)");
}

}  // namespace
}  // namespace trireme::checkpoint
