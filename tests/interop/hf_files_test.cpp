// Which files of a model directory are kept.
#include "runtime/interop/hf_files.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
        "modeling_own.py", "README.md", "pytorch_model.bin", "chat_template.jinja"})
    folder.write(name, "x");
  std::filesystem::create_directory(folder / "tokenizer.model");  // no file
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::config), ElementsAre("config.json"));
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::weights),
              ElementsAre("model.safetensors", "model.safetensors.index.json"));
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::kept),
              ElementsAre("LICENSE", "LICENSE.txt", "USE_POLICY.md", "chat_template.jinja",
                          "generation_config.json", "merges.txt", "tokenizer.json"));
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::code), ElementsAre("modeling_own.py"));
  EXPECT_THAT(files_of_kind(folder.path(), HfFile::not_used),
              ElementsAre("README.md", "pytorch_model.bin"));
}

TEST(HfFiles, OfNoDirectoryAreRefused) {
  const ScratchDirectory folder;
  EXPECT_THAT(message_of([&] { files_of_kind(folder / "no", HfFile::kept); }),
              testing::HasSubstr("no: cannot be read as a directory"));
}

}  // namespace
}  // namespace trireme::interop
