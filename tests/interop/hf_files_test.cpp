// Which files of a model directory are kept.
#include "runtime/interop/hf_files.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::interop {
namespace {

using testing::ElementsAre;

TEST(HfFiles, AreKeptOrReadOrCodeByTheirNames) {
  const ScratchDirectory folder;
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "merges.txt", "LICENSE",
        "LICENSE.txt", "USE_POLICY.md", "model.safetensors", "model.safetensors.index.json",
        "modeling_own.py", "README.md", "pytorch_model.bin", "chat_template.jinja", "license.md",
        "MODEL_LICENSE", "COPYING", "tokenizer.model.v3"})
    folder.write(name, "x");
  std::filesystem::create_directory(folder / "tokenizer.model");  // no file
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::config), ElementsAre("config.json"));
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::weights),
              ElementsAre("model.safetensors", "model.safetensors.index.json"));
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::kept),
              ElementsAre("COPYING", "LICENSE", "LICENSE.txt", "MODEL_LICENSE", "USE_POLICY.md",
                          "chat_template.jinja", "generation_config.json", "license.md",
                          "merges.txt", "tokenizer.json", "tokenizer.model.v3"));
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::code), ElementsAre("modeling_own.py"));
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::not_used),
              ElementsAre("README.md", "pytorch_model.bin"));
}

TEST(HfFiles, OfTheTokenizerAreNotThoseOfTheWeights) {
  const ScratchDirectory folder, elsewhere;
  for (const char* name : {"config.json", "generation_config.json", "LICENSE", "README.md",
                           "tokenizer_config.json", "special_tokens_map.json"})
    folder.write(name, "x");
  EXPECT_FALSE(has_tokenizer(folder.path()));
  folder.write("tokenizer.json", "x");
  EXPECT_TRUE(has_tokenizer(folder.path()));
  EXPECT_THAT(tokenizer_files(folder.path()),
              ElementsAre("special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"));
  std::filesystem::create_symlink(elsewhere.write("id_rsa", "secret"), folder / "vocab.json");
  EXPECT_THAT(message_of([&] { tokenizer_files(folder.path()); }),
              testing::HasSubstr("vocab.json is a link to "));
}

TEST(HfFiles, ThatCannotBeKeptAreNamedBeforeAnyWork) {
  const ScratchDirectory folder, elsewhere;
  namespace fs = std::filesystem;
  const std::string model = folder / "models--x/snapshots/1", blobs = folder / "models--x/blobs";
  fs::create_directories(model);
  fs::create_directories(blobs);
  folder.write("models--x/blobs/5f3a", "{}");
  fs::create_symlink("../../blobs/5f3a", model + "/config.json");  // as in the hub's cache
  fs::create_symlink(elsewhere.write("merges.txt", "x"), model + "/merges.txt");
  EXPECT_THAT(problems_of_kept_files(model), testing::IsEmpty());
  fs::create_symlink(elsewhere.write("id_rsa", "secret"), model + "/vocab.json");
  fs::create_symlink("nowhere", model + "/LICENSE");
  ASSERT_EQ(::mkfifo((model + "/tokenizer.json").c_str(), 0600), 0);
  folder.write("models--x/snapshots/1/NOTICE", "");
  fs::resize_file(model + "/NOTICE", static_cast<std::uintmax_t>(largest_kept_file) + 1);
  EXPECT_THAT(
      problems_of_kept_files(model),
      ElementsAre("LICENSE is a link to nowhere, which is not there; copy the file here, or remove "
                  "the link",
                  "NOTICE has 268435457 bytes; a file of this name is copied, and has at most "
                  "268435456",
                  "tokenizer.json is no file; remove it, or put the file in its place",
                  "vocab.json is a link to " + elsewhere / "id_rsa" +
                      ", outside of the model; copy the file here"));
}

TEST(HfFiles, OfNoDirectoryAreRefused) {
  const ScratchDirectory folder;
  EXPECT_THAT(message_of([&] { files_of_kind(folder / "no", HfFile::kept); }),
              testing::HasSubstr("no: cannot be read as a directory"));
}

}  // namespace
}  // namespace trireme::interop
