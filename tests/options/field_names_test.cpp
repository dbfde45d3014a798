// Messages of modules below name fields; users of a command line read options.
#include "runtime/options/field_names.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"
#include "tests/support/recorded_problems.h"

namespace trireme {
namespace {

TEST(FieldNames, AreOncePerFieldAndOptionsThatTrainGptHas) {
  const GptCommandLine line("", 1);
  const std::vector<std::string> declared = line.command.names();
  std::set<std::string_view> fields;
  for (const FieldName& name : field_names()) {
    EXPECT_TRUE(fields.insert(name.field).second) << name.field << " is there twice";
    if (name.field.starts_with("PrepareOptions::")) continue;  // of trireme data prepare
    const std::string text(name.option);
    const std::string option =
        text.substr(text.find("--"), text.find_first_of(" )", text.find("--")) - text.find("--"));
    EXPECT_THAT(declared, testing::Contains(option)) << name.field;
  }
}

TEST(FieldNames, BecomeOptionsWhereTheyStandAsWholeWords) {
  EXPECT_EQ(with_options("TransformerConfig::hidden_size 100: at least 1"),
            "--hidden-size 100: at least 1");
  EXPECT_EQ(with_options("8 tokens of tensor_size: use (DType::bf16)"),
            "8 tokens of --tensor-model-parallel-size: use (--bf16)");
  EXPECT_EQ(with_options("TransformerConfig::mlp"), "--activation");
  for (const char* text : {"", "::", "TransformerConfig::hidden_size_2", "OtherConfig::hidden_size",
                           "/data/tensor_size/x", "my.tensor_size", "Op::works_in: no", "a:"})
    EXPECT_EQ(with_options(text), text);
}

TEST(FieldNames, BecomeOptionsWithTheValuesThatTheseHave) {
  const KeyValues fields{{"TransformerConfig::tie_embeddings", "true"},
                         {"TransformerConfig::add_bias_linear", "false"},
                         {"TransformerConfig::num_layers", "4"},
                         {"kind", "false"}};
  EXPECT_THAT(
      as_options(fields),
      testing::ElementsAre(testing::Pair("--untie-embeddings-and-output-weights", "false"),
                           testing::Pair("--disable-bias-linear", "true"),
                           testing::Pair("--num-layers", "4"), testing::Pair("kind", "false")));
}

// Every checkpoint has these names.
TEST(FieldNames, OfTheIdentityOfModelsBecomeThoseOfCheckpoints) {
  const auto names = [](const TransformerConfig& config) {
    std::string all;
    for (const auto& [name, value] : config.identity()) all += with_options(name) + " ";
    return all;
  };
  const std::string both =
      "--num-layers --hidden-size --ffn-hidden-size --num-attention-heads --num-query-groups "
      "--vocab-size --normalization --norm-epsilon --activation --position-embedding-type "
      "--disable-bias-linear --untie-embeddings-and-output-weights ";
  EXPECT_EQ(names(preset("gpt2-124m")), both + "--max-position-embeddings ");
  EXPECT_EQ(names(preset("llama-1b")), both + "--rotary-base ");
}

TEST(FieldNames, BecomeOptionsInProblems) {
  test::RecordedProblems problems;
  problems.add("LearningRateOptions::lr is ", -1);
  problems.collect([] { throw Error("OptimizerOptions::epsilon is 0"); });
  EXPECT_THAT(problems.all(), testing::ElementsAre("--lr is -1", "--adam-eps is 0"));
}

}  // namespace
}  // namespace trireme
