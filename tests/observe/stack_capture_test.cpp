// The stack of a process that is stuck, by name and without a debugger.
#include "runtime/observe/stack/stack_capture.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/observe/stack/stack_names.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

/// Found by its name; never returns.
[[gnu::noinline]] void trireme_test_stuck_compute(volatile int* turns) {
  while (*turns >= 0) *turns = 1;
}

namespace trireme::observe {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr double long_s = 60;

/// A rank that runs `body` in a child process once its page exists.
class StuckRank {
 public:
  explicit StuckRank(const std::function<void(StatusPage&)>& body) {
    int ready[2];
    require(::pipe(ready) == 0, "pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      StatusPage page(folder_.path(), 0, 1);
      (void)!::write(ready[1], "x", 1);
      body(page);
      ::_exit(0);
    }
    char byte;
    require(::read(ready[0], &byte, 1) == 1, "the child made no page");
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~StuckRank() { end(); }
  StuckRank(const StuckRank&) = delete;
  StuckRank& operator=(const StuckRank&) = delete;

  pid_t pid() const { return pid_; }
  PageReader reader() const { return PageReader(page_path(folder_.path(), 0)); }
  void wait_for_step(Index step) const {
    while (reader().read().step != step) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  /// Until it ends; returns its status.
  int wait() {
    int status = 0;
    require(::waitpid(pid_, &status, 0) == pid_, "waitpid");
    pid_ = -1;
    return status;
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  pid_t pid_ = -1;
};

bool is_pending(pid_t pid, int signal) {
  std::ifstream status(str("/proc/", pid, "/status"));
  const std::string key = "ShdPnd:\t";
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key))
      return (std::stoull(line.substr(key.size()), nullptr, 16) >> (signal - 1) & 1) != 0;
  return false;
}

TEST(StackCapture, NamesTheFunctionInWhichARankIsStuck) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer delays signals until the next system call";
#endif
  const StuckRank rank([](StatusPage& page) {
    const StackCapture capture(page);
    volatile int turns = 0;
    page.begin_step(1);
    trireme_test_stuck_compute(&turns);
  });
  rank.wait_for_step(1);
  // The child may be on its way to the function still.
  std::vector<std::string> frames;
  const auto is_there = [](const std::string& frame) {
    return frame.find("trireme_test_stuck_compute") != std::string::npos;
  };
  while (std::none_of(frames.begin(), frames.end(), is_there))
    frames = capture_stack(rank.reader(), long_s).frames;
  EXPECT_THAT(frames[0],
              MatchesRegex(R"(trireme_test_stuck_compute\(.*\) \+0x[0-9a-f]+ \(observe_tests\))"));
  EXPECT_THAT(frames, Contains(HasSubstr("main")));
}

TEST(StackCapture, LeavesASystemCallAsItWas) {
  int data[2];
  ASSERT_EQ(::pipe(data), 0);
  StuckRank rank([&](StatusPage& page) {
    const StackCapture capture(page);
    page.begin_step(1);
    char byte = 0;
    page.begin_step(::read(data[0], &byte, 1) == 1 ? 2 : 3);
    for (;;) ::pause();
  });
  rank.wait_for_step(1);
  for (int i = 0; i < 3; ++i) {
    const NamedStack stack = capture_stack(rank.reader(), long_s);
    EXPECT_THAT(stack.frames, Not(IsEmpty())) << stack.why;
  }
  ASSERT_EQ(::write(data[1], "x", 1), 1);
  rank.wait_for_step(2);
  ::close(data[0]);
  ::close(data[1]);
}

TEST(StackCapture, SaysWhyThereIsNone) {
  StuckRank rank([](StatusPage& page) {
    const StackCapture capture(page);
    page.begin_step(1);
    for (;;) ::pause();
  });
  rank.wait_for_step(1);
  ASSERT_EQ(::kill(rank.pid(), SIGSTOP), 0);
  ASSERT_EQ(::waitpid(rank.pid(), nullptr, WUNTRACED), rank.pid());
  EXPECT_THAT(capture_stack(rank.reader(), 0.05).why,
              HasSubstr(str("process ", rank.pid(), " does not answer SIGUSR2: state T")));
  EXPECT_FALSE(is_pending(rank.pid(), SIGUSR2)) << "it would answer when it continues";
  const PageReader reader = rank.reader();
  const pid_t pid = rank.pid();
  rank.end();
  EXPECT_EQ(capture_stack(reader, 0.05).why, str("process ", pid, " has ended"));
}

TEST(StackCapture, SendsNoSignalThatWouldEndTheProcess) {
  const StuckRank rank([](StatusPage& page) {
    { const StackCapture capture(page); }
    page.begin_step(1);
    for (;;) ::pause();
  });
  rank.wait_for_step(1);
  EXPECT_EQ(capture_stack(rank.reader(), 0.05).why,
            str("process ", rank.pid(), " does not catch SIGUSR2"));
  EXPECT_EQ(::kill(rank.pid(), 0), 0);
}

TEST(StackCapture, ExistsOnceInAProcess) {
  const ScratchDirectory folder;
  StatusPage page(folder.path(), 0, 1), none;
  const StackCapture capture(page);
  EXPECT_EQ(message_of([&] { StackCapture second(page); }),
            "StackCapture: this process has one already");
  EXPECT_EQ(message_of([&] { StackCapture second(none); }), "");
  // The one of the page that is off has left the first one as it was.
  const NamedStack stack = capture_stack(PageReader(page_path(folder.path(), 0)), long_s);
  EXPECT_THAT(stack.frames, Not(IsEmpty())) << stack.why;
}

TEST(StackCapture, LeavesNoSignalThatEndsTheProcessAfterIt) {
  StuckRank rank([](StatusPage& page) {
    { const StackCapture capture(page); }
    (void)::raise(SIGUSR2);  // sent by a collector that has seen the handler
  });
  const int status = rank.wait();
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
}

TEST(StackNames, AreOffsetsAndABuildIdWhereThereAreNoSymbols) {
  Dl_info libc;
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&::getpid), &libc), 0);
  const ObjectFile file(libc.dli_fname);
  EXPECT_THAT(file.build_id(), MatchesRegex("[0-9a-f]{16,64}"));
  // The first bytes of a file are its header, which no function covers.
  EXPECT_THAT(file.find(0).name, IsEmpty());
  EXPECT_THAT(name_frames(::getpid(), {1}), ::testing::ElementsAre("0x1"));
}

/// An ELF file whose only function is "f", from byte `begin` on.
std::string program_of_one_function(std::uint64_t begin, std::uint64_t bytes) {
  struct {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    std::array<Elf64_Shdr, 2> sections;  // symbols and their names
    Elf64_Sym symbol;
    std::array<char, 8> names;
  } file{};
  std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  file.header.e_ident[EI_DATA] = ELFDATA2LSB;
  file.header.e_phoff = offsetof(decltype(file), segment);
  file.header.e_phnum = 1;
  file.header.e_shoff = offsetof(decltype(file), sections);
  file.header.e_shnum = 2;
  file.segment.p_type = PT_LOAD;
  file.segment.p_filesz = 4096;
  file.sections[0].sh_type = SHT_SYMTAB;
  file.sections[0].sh_offset = offsetof(decltype(file), symbol);
  file.sections[0].sh_size = sizeof(Elf64_Sym);
  file.sections[0].sh_link = 1;
  file.sections[1].sh_offset = offsetof(decltype(file), names);
  file.sections[1].sh_size = sizeof(file.names);
  file.symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  file.symbol.st_shndx = 1;
  file.symbol.st_value = begin;
  file.symbol.st_size = bytes;
  file.symbol.st_name = 1;
  file.names[1] = 'f';
  return {reinterpret_cast<const char*>(&file), sizeof(file)};
}

TEST(StackNames, AreThoseOfFunctionsThatCoverTheAddress) {
  const ScratchDirectory folder;
  const ObjectFile file(folder.write("file", program_of_one_function(100, 10)));
  EXPECT_EQ(file.find(99).name, "");
  EXPECT_EQ(file.find(100).name, "f");
  EXPECT_EQ(file.find(109).name, "f");
  EXPECT_EQ(file.find(109).offset, 9u);
  EXPECT_EQ(file.find(110).name, "");
  const ObjectFile of_assembly(folder.write("file", program_of_one_function(100, 0)));
  EXPECT_EQ(of_assembly.find(100).name, "f");
  EXPECT_EQ(of_assembly.find(101).name, "");
}

TEST(StackNames, AreFoundWithoutTheRestOfALargeFile) {
  const ScratchDirectory folder;
  const std::string path = folder.write("file", program_of_one_function(100, 10));
  std::filesystem::resize_file(path, std::uintmax_t{1} << 36);  // of which the disk holds nothing
  EXPECT_EQ(ObjectFile(path).find(100).name, "f");
}

TEST(StackNames, AreEmptyForAFileThatIsNoProgram) {
  const ScratchDirectory folder;
  const std::string magic(
      "\x7f"
      "ELF\x02\x01",
      6);
  for (const std::string& content :
       {std::string(), std::string("text"), magic, magic + std::string(200, '\xff')}) {
    const ObjectFile file(folder.write("file", content));
    EXPECT_THAT(file.build_id(), IsEmpty());
    EXPECT_THAT(file.find(8).name, IsEmpty());
  }
  EXPECT_THAT(ObjectFile(folder / "none").find(8).name, IsEmpty());
  EXPECT_THAT(ObjectFile(folder.path()).find(8).name, IsEmpty());
}

}  // namespace
}  // namespace trireme::observe
