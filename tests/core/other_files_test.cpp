// What is said of paths that are not what a reader looks for.
#include "runtime/core/files/other_files.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/core/text/one_line.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using testing::HasSubstr;

struct Other {
  FilesOf wanted;
  std::vector<std::string> files;  // in the directory
  std::string says;
};

TEST(OtherFiles, ADirectoryOfAnotherProgramIsNamedWithTheRemedy) {
  const Other cases[] = {
      {FilesOf::model, {}, "the directory is empty"},
      {FilesOf::model, {"README.md"}, ""},
      {FilesOf::model,
       {"adapter_config.json", "adapter_model.safetensors", "config.json"},
       "it has adapter_config.json, an adapter of PEFT without its model; merge them with merge_"},
      {FilesOf::model,
       {"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"},
       "model-00001-of-00002.safetensors, a shard, but the index model.safetensors.index.json is "
       "missing; copy it from"},
      {FilesOf::model,
       {"consolidated.safetensors", "params.json", "tekken.json"},
       "consolidated.safetensors, weights with the names of Mistral's own programs; download "
       "model*.safetensors"},
      {FilesOf::model, {"consolidated.00.pth"}, "with the names of Meta's own programs"},
      {FilesOf::model, {"x.Q4_K_M.gguf"}, "it has x.Q4_K_M.gguf, a model of llama.cpp; download"},
      {FilesOf::model,
       {"config.json", "pytorch_model-00001-of-00002.bin"},
       "which is pickled and not read; open it in transformers and write it with save_pretrained"},
      {FilesOf::model, {"pytorch_model.bin"}, "which is pickled and not read"},
      {FilesOf::model, {"latest_checkpointed_iteration.txt"}, "a checkpoint of Megatron-LM"},
      {FilesOf::model, {"global_step100", "latest"}, "a checkpoint of DeepSpeed; run zero_to_fp32"},
      {FilesOf::model, {"__0_0.distcp"}, "a distributed checkpoint of PyTorch"},
      {FilesOf::model, {"tf_model.h5"}, "weights of TensorFlow"},
      {FilesOf::model, {"blobs", "refs", "snapshots"}, "give the directory snapshots/REVISION"},
      {FilesOf::model, {"ckpt.pt"}, "it has ckpt.pt, which is pickled and not read"},
      {FilesOf::model, {"config.json", "tokenizer.json"}, "it has config.json, but no weights"},
      {FilesOf::model, {"mine.safetensors"}, "but the one file of a model is called model.safe"},
      {FilesOf::tokenizer,
       {"tekken.json"},
       "a tokenizer of Mistral, which is not read; make tokenizer.json with "
       "PreTrainedTokenizerFast"},
      {FilesOf::tokenizer, {"merges.txt", "vocab.json"}, "half of an older pair with merges.txt"},
      {FilesOf::tokenizer, {"merges.txt"}, "half of an older pair with vocab.json"},
      {FilesOf::tokenizer, {"tokenizer.model.v3"}, "a model of SentencePiece, which is not read"},
      {FilesOf::tokenizer, {"tokenizer_config.json"}, "but the tokenizer itself is missing"}};
  for (const auto& [wanted, files, says] : cases) {
    const ScratchDirectory folder;
    for (const std::string& file : files) folder.write(file, "");
    const std::string said = instead_of(wanted, folder.path());
    EXPECT_THAT(said, HasSubstr(says)) << testing::PrintToString(files);
    EXPECT_EQ(says.empty(), said.empty()) << said;
    EXPECT_EQ(said, one_line(said));
  }
}

TEST(OtherFiles, APathThatIsNoDirectoryIsNamed) {
  const ScratchDirectory folder;
  const auto model = [&](const std::string& name) {
    return instead_of(FilesOf::model, folder.write(name, ""));
  };
  EXPECT_EQ(instead_of(FilesOf::model, "meta-llama/Llama-3.2-1B"),
            "there is no such directory; if it is a model of the hub, download it first: hf "
            "download meta-llama/Llama-3.2-1B, which prints its directory");
  for (const char* address : {"https://huggingface.co/", "huggingface.co/", "hf://"})
    EXPECT_THAT(instead_of(FilesOf::model, str(address, "Qwen/Qwen3-0.6B")),
                HasSubstr("download it first: hf download Qwen/Qwen3-0.6B,"));
  EXPECT_THAT(instead_of(FilesOf::model, "s3://bucket/model"), HasSubstr("this is an address"));
  for (const char* missing : {"./a/b", "/nowhere/a", "a/b/c", "a", "../a"})
    EXPECT_EQ(instead_of(FilesOf::model, missing), "there is no such directory");
  EXPECT_EQ(model("model.safetensors"),
            "this is a file; give the directory around it, " + folder.path());
  EXPECT_EQ(model("config.json"), "this is a file; give the directory around it, " + folder.path());
  EXPECT_THAT(model("x.gguf"), HasSubstr("this is x.gguf, a model of llama.cpp"));
  EXPECT_THAT(instead_of(FilesOf::tokenizer, folder.write("a.tiktoken", "")),
              HasSubstr("this is a.tiktoken, a vocabulary of tiktoken"));
  EXPECT_EQ(instead_of(FilesOf::tokenizer, folder.write("mine.json", "")), "");
}

TEST(OtherFiles, AModelOneDirectoryBelowIsFound) {
  const ScratchDirectory folder;
  std::filesystem::create_directory(folder / "inner");
  folder.write("inner/config.json", "{}");
  EXPECT_EQ(instead_of(FilesOf::model, folder.path()),
            "the model is in " + (folder / "inner") + "; give that directory");
}

TEST(OtherFiles, TokensWithoutAnIndexAreThoseOfNanoGpt) {
  const ScratchDirectory folder;
  folder.write("train.bin", "abcd");
  EXPECT_THAT(instead_of(FilesOf::tokens, folder / "train"),
              HasSubstr("train.bin has no index beside it"));
  folder.write("train.idx", "");
  EXPECT_EQ(instead_of(FilesOf::tokens, folder / "train"), "");
  EXPECT_EQ(instead_of(FilesOf::tokens, folder / "other"), "");
}

TEST(OtherFiles, WhatADownloadGaveInPlaceOfAFileIsNamed) {
  using namespace std::string_literals;
  for (const auto& [begin, says] :
       {std::pair{"<!DOCTYPE html><html>"s, "is a page of HTML, which a download without"},
        {"\n <html>"s, "is a page of HTML"},
        {"version https://git-lfs.github.com/spec/v1"s, "is a pointer of Git LFS"},
        {"version "s, "is a pointer of Git LFS"},
        {"GGUF\x03\0\0\0"s, "is a GGUF model"},
        {"PK\x03\x04"s, "is a zip archive, as torch.save() writes"},
        {"Entry not found"s, "is an answer of the hub"}})
    EXPECT_THAT(what_begins_so(begin), HasSubstr(says)) << begin;
  EXPECT_EQ(what_begins_so("{\"model_type\": \"llama\"}"), "");
  EXPECT_EQ(what_begins_so(""), "");
}

}  // namespace
}  // namespace trireme
