// Core files: those of a run are kept with its attempts, others stay where they are.
#include <csignal>
#include <cstring>
#include <filesystem>

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/machine/post_mortem.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class CoreFiles : public testing::Test {
 protected:
  CoreFiles() {
    fs::create_directory(folder_ / "work");
    for (Index attempt = 1; attempt <= 3; ++attempt)
      fs::create_directories(paths_.attempt(attempt));
  }
  /// Of a process with one writable piece of memory.
  static std::string core(const std::string& memory, std::uint16_t type = ET_CORE) {
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_type = type;
    head.e_phoff = sizeof head;
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = 1;
    Elf64_Phdr part{};
    part.p_type = PT_LOAD;
    part.p_flags = PF_R | PF_W;
    part.p_offset = sizeof head + sizeof part;
    part.p_filesz = memory.size();
    std::string text(reinterpret_cast<const char*>(&head), sizeof head);
    text.append(reinterpret_cast<const char*>(&part), sizeof part);
    return text + memory;
  }
  static std::string environment(const std::string& variable) {
    using namespace std::string_literals;
    return "HOME=/\0"s + variable + "\0LANG=C\0"s;
  }
  std::vector<std::string> keep(Index attempt, Index since = 0) const {
    return keep_cores(folder_ / "work", since, "KEY=1", paths_, attempt);
  }

  ScratchDirectory folder_;
  const Paths paths_{folder_ / "run"};
};

TEST_F(CoreFiles, OfTwoAttemptsAreKept) {
  for (Index attempt = 1; attempt <= 3; ++attempt) {
    folder_.write("work/core.17", core(environment("KEY=1")));
    EXPECT_THAT(keep(attempt), IsEmpty());
  }
  EXPECT_FALSE(fs::exists(paths_.attempt(1) + "/core.17"));
  EXPECT_TRUE(fs::exists(paths_.attempt(2) + "/core.17"));
  EXPECT_TRUE(fs::exists(paths_.attempt(3) + "/core.17"));
  EXPECT_TRUE(fs::is_empty(folder_ / "work"));
}

TEST_F(CoreFiles, OfOtherProcessesAndOtherFilesStay) {
  folder_.write("work/core.cpp", "int main() {}");
  folder_.write("work/core.so", core(environment("KEY=1"), ET_DYN));
  folder_.write("work/core.1", core(environment("KEY=12")));
  folder_.write("work/core.2", core(environment("OTHER_KEY=1")));
  folder_.write("work/core.3", core(""));
  folder_.write("work/core.4", core(environment("KEY=1")).substr(0, 100));  // cut off
  folder_.write("work/corpus", core(environment("KEY=1")).substr(0, 5));
  EXPECT_THAT(keep(1), IsEmpty());
  EXPECT_TRUE(fs::is_empty(paths_.attempt(1)));
  folder_.write("work/core", core(environment("KEY=1")));
  EXPECT_THAT(keep(1, 1'000'000'000'000), IsEmpty());  // it is older
  EXPECT_TRUE(fs::is_empty(paths_.attempt(1)));
}

TEST_F(CoreFiles, ThatCannotBeMovedAreNamed) {
  const std::string core_file = folder_.write("work/core.17", core(environment("KEY=1")));
  fs::create_directories(paths_.attempt(1) + "/core.17/full");  // as another disk would, in the way
  const std::vector<std::string> lines = keep(1);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("the core file " + core_file + " stays there: it cannot be "));
  EXPECT_TRUE(fs::exists(core_file));
}

TEST_F(CoreFiles, OfTheKernelAreThoseOfTheirProcess) {
  using trireme::test::read_text;
  if (read_text("/proc/sys/kernel/core_pattern") != "core\n")
    GTEST_SKIP() << "this system writes core files elsewhere";
  const std::string in_work = "cd " + (folder_ / "work") + "; ulimit -c unlimited; ";
  trireme::test::run_shell(in_work + "KEY=1 sh -c 'kill -ABRT $$'", folder_ / "log");
  fs::path found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "work"))
    found = entry.path();
  if (found.empty()) GTEST_SKIP() << "the limit of core files is 0: " << folder_.read("log");
  EXPECT_TRUE(is_core_of(found.string(), "KEY=1"));
  EXPECT_FALSE(is_core_of(found.string(), "KEY=2"));
}

}  // namespace
}  // namespace trireme::supervisor::test
