// train_gpt --load-hf, trireme hf import and export, as users start them.
#include <cstring>
#include <filesystem>
#include <span>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/token_file.h"

#include "runtime/store/inspect/inspect.h"
#include "runtime/store/safetensors/directory.h"
#include "tests/interop/golden_model.h"
#include "tests/interop/hf_configs.h"
#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/kill_job.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string bytes_gpt2 =
    R"({"model_type":"gpt2","vocab_size":256,"n_embd":48,"n_layer":2,"n_head":4,)"
    R"("n_positions":32})";
const std::string bytes_llama =
    R"({"model_type":"llama","vocab_size":256,"hidden_size":48,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":96,)"
    R"("max_position_embeddings":64,"rms_norm_eps":1e-5,"rope_theta":10000.0})";

/// A directory of Hugging Face, and jobs that begin with it.
struct HuggingFace {
  explicit HuggingFace(const std::string& config, const std::string& type = "F32")
      : tensors(toy_model(config, type)) {
    write_model(from, config, tensors, 2);
    from.write("tokenizer.json", "{}");
  }
  std::string training(const Layout& layout, const std::string& options) const {
    return jobs.training(layout, "--load-hf " + from.path() + " " + options);
  }
  /// On ranks that are threads.
  void train(const Layout& layout, const std::string& options) const {
    jobs.train(layout, "--load-hf " + from.path() + " " + options);
  }
  /// Of train_gpt.
  std::string arguments(const Layout& layout, const std::string& options) const {
    const std::string words =
        jobs.program(layout.options + " --load-hf " + from.path() + " " + options);
    return words.substr(words.find(' '));
  }
  std::string training(const std::string& options) const {
    return training({"one rank", 1, "--micro-batch-size 4"}, options);
  }

  CheckpointJobs jobs{"--seq-length 24 --lr 1e-3 --lr-warmup-iters 2 --lr-decay-iters 20"};
  ScratchDirectory from;
  std::vector<RawTensor> tensors;
};

const std::vector<Layout> layouts = {
    {"one rank", 1, "--micro-batch-size 4"},
    {"tensor 2 x pipeline 2", 4, "--tp 2 --pp 2 --micro-batch-size 2"},
    {"data 2, ZeRO", 2, "--micro-batch-size 2 --use-distributed-optimizer --bucket-size 3000"}};

std::string fact(const OpenedStep& step, const std::string& name) {
  const std::string* value = step.manifest.identity_of("origin/" + name);
  return value == nullptr ? "none" : *value;
}

class LoadHfGolden : public testing::TestWithParam<std::string> {
 protected:
  LoadHfGolden() {
    TokenFileWriter corpus(jobs_ / "data", TokenType::u8);
    corpus.add(std::span<const std::int32_t>(golden_tokens()));
    corpus.end_document();
    corpus.finish();
  }

  const GoldenModel model_{GetParam()};
  CheckpointJobs jobs_{"--seq-length 24 --split 1,0 --train-iters 1 --lr 1e-3"};
};
INSTANTIATE_TEST_SUITE_P(Families, LoadHfGolden, testing::ValuesIn(golden_cases()), name_of_case);

// Loss and gradients are those of transformers, and the weights of the file those of the run to the
// bit, whatever the layout.
TEST_P(LoadHfGolden, EveryLayoutBeginsAsInTransformers) {
  std::vector<std::string> sums;
  const TransformerConfig& model = model_.config().model;
  for (const Layout& layout : layouts) {
    // Random cases, not those of the tree.
    const bool odd = model.kv_heads() % 2 != 0 || model.num_layers % 2 != 0;
    if (odd && layout.ranks == 4) continue;
    const std::string run = jobs_ / layout.name, prefix = jobs_ / "dump";
    jobs_.train(layout, str("--load-hf ", model_.path(), " --save '", run, "' --metrics ", prefix,
                            ".jsonl --dump-tensors ", prefix));
    const TrainingRun trained = read_training_run(prefix);
    model_.golden().expect_training(layout.name, trained.steps.front().loss,
                                    trained.gradients.tensors, golden_batch * golden_sequence);
    sums.push_back(fact(open_step(run + "/step-000001"), "values xxh3"));
    EXPECT_EQ(sums.back(), sums.front()) << layout.name;
    EXPECT_TRUE(std::filesystem::exists(run + "/hf/config.json"));
    std::filesystem::remove(prefix + ".jsonl");
  }
  EXPECT_EQ(sums.front().size(), 16u);
}

TEST(LoadHf, TheSameCommandStartsAndRestartsWithoutADifference) {
  const HuggingFace hf(bytes_llama);
  const auto command = [&](const std::string& run, int steps) {
    return hf.training(layouts[1], str("--train-iters ", steps, " --save-interval 1 --save ", run,
                                       " --load ", run));
  };
  const std::string straight = hf.jobs / "straight", again = hf.jobs / "again";
  hf.jobs.succeed(command(straight, 6));
  const std::string first = hf.jobs.succeed(command(again, 3));
  EXPECT_THAT(first, HasSubstr("no checkpoint in " + again + ": starting from " + hf.from.path()));
  std::filesystem::remove_all(hf.from.path());  // a run keeps what it needs of it
  const std::string second = hf.jobs.succeed(command(again, 6));
  EXPECT_THAT(second, HasSubstr("loaded step 3 of " + again));
  EXPECT_THAT(second, Not(HasSubstr("loaded llama")));
  const std::string step = "/step-000006";
  EXPECT_EQ(first_difference(read_checkpoint(straight + step), read_checkpoint(again + step)), "");
  EXPECT_EQ(fact(open_step(again + step), "values xxh3"),
            fact(open_step(straight + step), "values xxh3"));
  std::filesystem::create_directory(hf.from.path());  // for the destructor
}

// All ranks: while they read, before anything is saved, and between saves.
TEST(LoadHf, AJobThatIsKilledLosesNothing) {
  const HuggingFace hf(bytes_gpt2);
  const Layout& layout = layouts[1];
  const std::string run = hf.jobs / "run", straight = hf.jobs / "straight";
  const auto options = [&](const std::string& directory, Index steps) {
    return str("--train-iters ", steps, " --save-interval 1 --save ", directory, " --load ",
               directory);
  };
  const auto kill_when = [&](auto&& is_time) {
    const std::string log = hf.jobs / "killed";
    KillableJob job(str(TRIREME_MPIRUN " --timeout 120 -np ", layout.ranks),
                    TRIREME_BIN_DIR "/train_gpt", hf.arguments(layout, options(run, 100000)), log);
    EXPECT_TRUE(wait_until([&] { return is_time(read_text(log)); })) << read_text(log);
    EXPECT_TRUE(job.kill(Victim::all, 0));
    job.wait();
    job.wait_until_gone();
  };
  kill_when([](const std::string& output) { return count(output, "memory planned") > 0; });
  kill_when([](const std::string& output) { return count(output, "loaded gpt2 from") > 0; });
  kill_when([&](const std::string&) { return committed_steps(run).size() >= 2; });
  const Index steps = committed_steps(run).front() + 2;
  const auto finish = [&](const std::string& directory) {
    return hf.jobs.succeed(hf.training(layout, options(directory, steps)));
  };
  EXPECT_THAT(finish(run), HasSubstr(str("loaded step ", steps - 2)));
  finish(straight);
  const std::string step = fmt::format("/step-{:06}", steps);
  EXPECT_EQ(first_difference(read_checkpoint(straight + step), read_checkpoint(run + step)), "");
}

TEST(LoadHf, RefusesWhatDoesNotFitWithALineEachBeforeItStarts) {
  const HuggingFace hf(bytes_llama);
  const auto refused = [&](const std::string& options) {
    const Outcome outcome = hf.jobs.run(hf.training(options + " --train-iters 1"));
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(refused("--hidden-size 64 --num-layers 3"),
              testing::AllOf(HasSubstr("2 problems"),
                             HasSubstr("--hidden-size is 64 here and 48 in " + hf.from.path() +
                                       "/config.json, whose model --load-hf takes"),
                             HasSubstr("--num-layers is 3 here and 2 in ")));
  EXPECT_THAT(refused("--vocab-size 255"), HasSubstr("--vocab-size is 255 here and 256 in "));
  EXPECT_THAT(refused("--model tiny-llama"), HasSubstr("--model beside --load-hf "));
  EXPECT_THAT(
      refused("--load " + (hf.jobs / "x") + " --use-checkpoint-args --save " + (hf.jobs / "x")),
      HasSubstr("--use-checkpoint-args beside --load-hf "));
  std::filesystem::resize_file(hf.from / "b.safetensors", 5000);
  EXPECT_THAT(refused(""), HasSubstr("b.safetensors: "));
  std::filesystem::remove(hf.from / "b.safetensors");
  EXPECT_THAT(refused(""), HasSubstr("names files that are missing: b.safetensors"));
  std::vector<RawTensor> tensors = hf.tensors;
  tensor_called(tensors, "model.norm.weight").name = "norm";
  write_model(hf.from, bytes_llama, tensors);
  EXPECT_THAT(
      refused(""),
      testing::AllOf(HasSubstr("2 problems"), HasSubstr("tensor model.norm.weight (48) is missing"),
                     HasSubstr("tensor norm (48) has no place in this model")));
  hf.from.write("config.json", R"({"model_type":"bloom"})");
  EXPECT_THAT(refused(""), HasSubstr("model_type is \"bloom\""));
  std::filesystem::remove(hf.from / "config.json");
  EXPECT_THAT(refused(""), HasSubstr("has no config.json"));
}

// The longest sequence of a model can need more memory than any machine has.
TEST(LoadHf, TheLengthOfSequencesIsGivenAndNotTakenFromTheFile) {
  HuggingFace hf(bytes_llama);
  hf.jobs.model = "";
  const std::string run = hf.jobs / "run";
  const Outcome none = hf.jobs.run(hf.training("--train-iters 1 --save " + run));
  EXPECT_EQ(none.exit_code, 64) << none.output;
  EXPECT_THAT(none.output, HasSubstr("--load-hf " + hf.from.path() +
                                     ": give --seq-length, at most 64; it is not taken from"));
  EXPECT_FALSE(std::filesystem::exists(run));
  const Outcome more = hf.jobs.run(hf.training("--seq-length 65 --train-iters 1 --save " + run));
  EXPECT_EQ(more.exit_code, 64) << more.output;
  EXPECT_THAT(more.output, HasSubstr("--seq-length 65 is too long: max_position_embeddings in "
                                     "config.json of --load-hf " +
                                     hf.from.path() + " is 64"));
  hf.jobs.succeed(hf.training("--seq-length 64 --train-iters 1"));
}

TEST(LoadHf, SaysWhatItDoesNotTakeOver) {
  const HuggingFace hf(interop::with(bytes_gpt2, "resid_pdrop", "0.1"));
  const std::string output = hf.jobs.succeed(hf.training(layouts[2], "--train-iters 1"));
  EXPECT_EQ(count(output, "resid_pdrop 0.1 is not taken over: --hidden-dropout decides"), 1)
      << output;
}

TEST(LoadHf, NodesWhoseFilesDifferAreRefused) {
  HuggingFace hf(bytes_llama);
  const auto copy_to_node = [&](int node) {
    std::filesystem::copy(hf.from.path(), hf.jobs / str("node", node, "/hf"),
                          std::filesystem::copy_options::overwrite_existing |
                              std::filesystem::copy_options::recursive);
  };
  for (const int node : {0, 1}) {
    std::filesystem::create_directories(hf.jobs / str("node", node, "/hf"));
    copy_to_node(node);
  }
  const auto run = [&] {
    return hf.jobs.run(hf.jobs.training(
        layouts[2], "--load-hf hf --train-iters 1",
        str("sh -c 'cd ", hf.jobs / "node", "$OMPI_COMM_WORLD_RANK && exec \"$@\"' sh")));
  };
  const Outcome same = run();
  EXPECT_EQ(same.exit_code, 0) << same.output;
  std::vector<RawTensor> others = hf.tensors;
  for (RawTensor& tensor : others)
    for (std::size_t i = 0; i < tensor.bytes.size(); i += 4) tensor.bytes[i] ^= 1;
  write_model(hf.from, bytes_llama, others, 2);
  copy_to_node(1);
  const Outcome values = run();
  EXPECT_EQ(values.exit_code, 64);
  EXPECT_THAT(values.output, HasSubstr("--load-hf hf: has other values here than where rank 0"));
  write_model(hf.from, "{\"note\":1," + bytes_llama.substr(1), hf.tensors, 2);
  copy_to_node(1);
  const Outcome config = run();
  EXPECT_EQ(config.exit_code, 64);
  EXPECT_THAT(config.output, HasSubstr("--load-hf hf: has another config.json here than where"));
}

TEST(LoadHf, ALargerVocabularyBeginsWithInitialValues) {
  HuggingFace hf(bytes_llama);
  hf.jobs.model = "--seq-length 24 --lr 1e-30 --weight-decay 0";  // no step changes a bit
  const auto parameters = [&](const std::string& name, const std::string& command) {
    const std::string prefix = hf.jobs / name;
    const std::string output =
        hf.jobs.succeed(command + " --vocab-size 300 --train-iters 1 --metrics " + prefix +
                        ".jsonl --dump-tensors " + prefix);
    EXPECT_EQ(count(output, "44 rows more than in "), name == "drawn" ? 0 : 1) << output;
    return read_training_run(prefix).parameters.tensors;
  };
  const std::string drawn_model =
      "--model tiny-llama --num-layers 2 --hidden-size 48 --ffn-hidden-size 96 "
      "--untie-embeddings-and-output-weights --norm-epsilon 1e-5 ";
  auto drawn = parameters("drawn", hf.jobs.training(layouts[0], drawn_model));
  auto loaded = parameters("loaded", hf.training(layouts[1], ""));
  std::vector<float> file(256 * 48);
  std::vector<RawTensor> tensors = hf.tensors;
  const std::string& bytes = tensor_called(tensors, "lm_head.weight").bytes;
  std::memcpy(file.data(), bytes.data(), bytes.size());
  const std::vector<float>& head = loaded["head.weight"];
  ASSERT_EQ(head.size(), 300u * 48);
  for (std::size_t i = 0; i < head.size(); ++i)
    ASSERT_EQ(head[i], i < file.size() ? file[i] : drawn["head.weight"][i]) << i;
}

TEST(LoadHf, APlanOfALargeModelReadsNoTensor) {
  const ScratchDirectory folder;
  // Larger than any disk here.
  write_hollow_model(folder,
                     R"({"model_type":"llama","vocab_size":128256,"hidden_size":8192,)"
                     R"("num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,)"
                     R"("intermediate_size":28672,"max_position_embeddings":8192,)"
                     R"("rms_norm_eps":1e-5,"rope_theta":500000.0})");
  const Outcome outcome = run_shell(TRIREME_BIN_DIR "/train_gpt --load-hf " + folder.path() +
                                        " --seq-length 8192 --tp 8 --bf16 --plan-only=64,H100-SXM"
                                        " && cat /proc/$$/io",
                                    folder / "log");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const std::size_t read = outcome.output.find("rchar: ");  // by the shell and its children
  ASSERT_NE(read, std::string::npos) << outcome.output;
  EXPECT_LT(std::stoll(outcome.output.substr(read + 7)), 10 << 20) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("plan of pipeline 1 x data 8 x tensor 8 = 64 ranks"));
}

bool has(const safetensors::Directory& files, const RawTensor& tensor) {
  const safetensors::LocatedTensor* located = files.find(tensor.name);
  if (located == nullptr) return false;
  const std::string file = read_text(files.file_path(*located));
  return file.compare(static_cast<std::size_t>(located->offset), tensor.bytes.size(),
                      tensor.bytes) == 0;
}

void expect_tensors(const std::string& directory, const std::vector<RawTensor>& tensors) {
  const safetensors::Directory files = safetensors::open_directory(directory);
  EXPECT_EQ(files.tensors.size(), tensors.size());
  for (const RawTensor& tensor : tensors) EXPECT_TRUE(has(files, tensor)) << tensor.name;
}

// Of f16 too no bit is lost on the way through a run: a type that few models come in. Nor are rows
// beyond the 256 tokens of the data.
TEST(LoadHf, HalvesLeaveAsTheyCame) {
  HuggingFace hf(interop::with(bytes_llama, "vocab_size", "259"), "F16");
  hf.jobs.model = "--seq-length 24 --lr 1e-30 --weight-decay 0";  // no step changes a bit
  const std::string run = hf.jobs / "run", out = hf.jobs / "out";
  hf.train(layouts[1], "--train-iters 1 --save " + run);
  hf.jobs.succeed(hf.jobs.trireme("hf export " + run + " --dtype f16 --output " + out));
  expect_tensors(out, hf.tensors);
}

TEST(LoadHf, FrozenPartsLeaveAsTheyCameAndTheOthersAreTrained) {
  HuggingFace hf(bytes_llama, "BF16");
  // One step changes some number of each tensor.
  hf.jobs.model = "--seq-length 24 --lr 0.1 --lr-decay-style constant";
  const std::string run = hf.jobs / "run", out = hf.jobs / "out";
  hf.train(layouts[1], "--bf16 --freeze embedding,block.0 --train-iters 1 --save " + run);
  hf.jobs.succeed(hf.jobs.trireme("hf export " + run + " --dtype bf16 --output " + out));
  const safetensors::Directory files = safetensors::open_directory(out);
  for (const RawTensor& tensor : hf.tensors)
    EXPECT_EQ(has(files, tensor), tensor.name.starts_with("model.embed_tokens.") ||
                                      tensor.name.starts_with("model.layers.0."))
        << tensor.name;
}

TEST(HfCommands, ExportWhatWasTrainedAndWhatWasImported) {
  HuggingFace hf(bytes_gpt2, "BF16");
  hf.jobs.model = "--seq-length 24 --lr 1e-30 --weight-decay 0";  // no step changes a bit
  const auto trireme = [&](const std::string& words) {
    return hf.jobs.succeed(hf.jobs.trireme(words));
  };
  const std::string imported = hf.jobs / "imported", run = hf.jobs / "run", out = hf.jobs / "out";
  trireme("hf import " + hf.from.path() + " --output " + imported);
  trireme("checkpoint verify " + imported);
  const std::string loaded = hf.jobs / "loaded";
  hf.jobs.succeed(hf.training(layouts[1], "--train-iters 1 --save " + loaded));
  EXPECT_EQ(fact(open_step(imported + "/step-000000"), "values xxh3"),
            fact(open_step(loaded + "/step-000001"), "values xxh3"));
  hf.jobs.model = "--seq-length 24 --lr 1e-3";
  hf.jobs.succeed(hf.jobs.training(
      layouts[2],
      str("--train-iters 1 --load ", imported, " --finetune --use-checkpoint-args --save ", run)));
  trireme("hf export " + run + " --output " + out);
  trireme("hf export " + imported + ":0 --dtype bf16 --max-shard-size 50K --output " + out + "2");
  trireme("hf export " + loaded + " --dtype bf16 --output " + out + "4");
  trireme("checkpoint export " + run + " --output " + out + ".safetensors");
  trireme("hf export " + run + "/step-000001/ --output " + out + "3/");
  EXPECT_TRUE(std::filesystem::exists(out + "3/tokenizer.json"));
  EXPECT_TRUE(std::filesystem::exists(out + "2/model.safetensors.index.json"));
  EXPECT_TRUE(std::filesystem::exists(out + "/tokenizer.json"));
  // What was exported comes back as what the run has.
  trireme("hf import " + out + " --output " + out + "-again");
  StoredTensors trained = read_checkpoint(run + "/step-000001");
  std::erase_if(trained, [](const auto& each) { return !each.first.starts_with("parameters/"); });
  EXPECT_EQ(first_difference(trained, read_checkpoint(out + "-again/step-000000")), "");
  // And what was imported, or loaded and not changed, leaves as it came.
  expect_tensors(out + "2", hf.tensors);
  expect_tensors(out + "4", hf.tensors);
  const Outcome there = hf.jobs.run(hf.jobs.trireme("hf export " + run + " --output " + out));
  EXPECT_EQ(there.exit_code, 64);
  EXPECT_THAT(there.output, HasSubstr("exists already"));
  const Outcome file = hf.jobs.run(
      hf.jobs.trireme("checkpoint export " + run + " --output " + out + ".safetensors"));
  EXPECT_EQ(file.exit_code, 64) << file.output;
}

}  // namespace
}  // namespace trireme::test
