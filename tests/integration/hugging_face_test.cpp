// train_gpt --load-hf, trireme hf import and export, as users start them.
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/inspect/inspect.h"
#include "runtime/store/safetensors/directory.h"
#include "tests/interop/toy_model.h"
#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"

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

// The weights of the file are those of the run, to the bit, and whatever the layout.
void expect_every_layout_begins_alike(const std::string& config) {
  const HuggingFace hf(config, "BF16");
  std::vector<TrainingRun> runs;
  std::vector<std::string> sums;
  for (const Layout& layout : layouts) {
    const std::string run = hf.jobs / std::to_string(runs.size()), prefix = run + ".dump";
    hf.jobs.succeed(hf.training(layout, str("--train-iters 2 --save ", run, " --metrics ", prefix,
                                            ".jsonl --dump-tensors ", prefix)));
    runs.push_back(read_training_run(prefix));
    sums.push_back(fact(open_step(run + "/step-000002"), "values xxh3"));
    const Difference difference = compare(runs.front(), runs.back());
    EXPECT_TRUE(within_limits(difference)) << layout.name << ": " << describe(difference);
    EXPECT_EQ(sums.back(), sums.front()) << layout.name;
    EXPECT_TRUE(std::filesystem::exists(run + "/hf/tokenizer.json"));
  }
  EXPECT_EQ(sums.front().size(), 16u);
  hf.jobs.succeed(
      hf.jobs.trireme("hf import " + hf.from.path() + " --output " + (hf.jobs / "imported")));
  EXPECT_EQ(fact(open_step(hf.jobs / "imported/step-000000"), "values xxh3"), sums.front());
}
TEST(LoadHf, EveryLayoutBeginsWithTheSameGpt2) { expect_every_layout_begins_alike(bytes_gpt2); }
TEST(LoadHf, EveryLayoutBeginsWithTheSameLlama) { expect_every_layout_begins_alike(bytes_llama); }

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

TEST(LoadHf, AJobThatIsKilledBeforeItsFirstSaveBeginsAgain) {
  const HuggingFace hf(bytes_gpt2);
  const std::string run = hf.jobs / "run", straight = hf.jobs / "straight";
  const auto command = [&](const std::string& directory) {
    return hf.training(str("--train-iters 4 --save ", directory, " --load ", directory));
  };
  hf.jobs.succeed(command(straight));
  {
    BackgroundProcess job(
        "exec " + hf.training(str("--train-iters 100000 --save ", run, " --load ", run)),
        hf.jobs / "killed");
    EXPECT_TRUE(wait_until([&] { return count(job.output(), "loaded gpt2 from") > 0; }))
        << job.output();
  }
  std::filesystem::remove(run + "/metrics.jsonl");
  hf.jobs.succeed(command(run));
  const std::string step = "/step-000004";
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
  folder.write("config.json",
               R"({"model_type":"llama","vocab_size":128256,"hidden_size":8192,)"
               R"("num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,)"
               R"("intermediate_size":28672,"max_position_embeddings":8192,"rms_norm_eps":1e-5,)"
               R"("rope_theta":500000.0})");
  // A file of holes, larger than any disk here.
  std::vector<std::string> problems;
  const interop::HfConfig config = interop::parse_hf_config(folder.read("config.json"), problems);
  safetensors::Header header;
  Index end = 0;
  for (const interop::HfView& view : interop::hf_views("llama", config.model)) {
    const Index begin = end;
    end += view.hf_shape.count() * 2;
    header.tensors.push_back({view.hf, "BF16", view.hf_shape, begin, end});
  }
  const std::string text = safetensors::header_text(header);
  const std::string path = folder.write("model.safetensors", text);
  std::filesystem::resize_file(path, text.size() + static_cast<std::size_t>(end));
  const Outcome outcome = run_shell(TRIREME_BIN_DIR "/train_gpt --load-hf " + folder.path() +
                                        " --tp 8 --bf16 --plan-only=64,H100-SXM",
                                    folder / "log");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("plan of pipeline 1 x data 8 x tensor 8 = 64 ranks"));
}

TEST(HfCommands, ExportWhatWasTrainedAndWhatWasImported) {
  const HuggingFace hf(bytes_gpt2, "BF16");
  const auto trireme = [&](const std::string& words) {
    return hf.jobs.succeed(hf.jobs.trireme(words));
  };
  const std::string imported = hf.jobs / "imported", run = hf.jobs / "run", out = hf.jobs / "out";
  trireme("hf import " + hf.from.path() + " --output " + imported);
  trireme("checkpoint verify " + imported);
  hf.jobs.succeed(hf.jobs.training(
      layouts[2],
      str("--train-iters 1 --load ", imported, " --finetune --use-checkpoint-args --save ", run)));
  trireme("hf export " + run + " --output " + out);
  trireme("hf export " + imported + ":0 --dtype bf16 --max-shard-size 50K --output " + out + "2");
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
  // And what was imported leaves as it came.
  const safetensors::Directory files = safetensors::open_directory(out + "2");
  for (const RawTensor& tensor : hf.tensors) {
    const safetensors::LocatedTensor* located = files.find(tensor.name);
    ASSERT_NE(located, nullptr) << tensor.name;
    const std::string file = read_text(files.file_path(*located));
    EXPECT_TRUE(file.substr(static_cast<std::size_t>(located->offset), tensor.bytes.size()) ==
                tensor.bytes)
        << tensor.name;
  }
  const Outcome there = hf.jobs.run(hf.jobs.trireme("hf export " + run + " --output " + out));
  EXPECT_EQ(there.exit_code, 64);
  EXPECT_THAT(there.output, HasSubstr("exists already"));
  const Outcome file = hf.jobs.run(
      hf.jobs.trireme("checkpoint export " + run + " --output " + out + ".safetensors"));
  EXPECT_EQ(file.exit_code, 64) << file.output;
}

}  // namespace
}  // namespace trireme::test
