// What a process prepares at its start: standard streams, limits of files, signals; and its end.
#include <csignal>
#include <cstdio>
#include <iostream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/log.h"

#include "runtime/core/process/this_process.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

bool has_mode(int file, int mode) {
  return (::fcntl(file, F_GETFL) & O_ACCMODE) == mode && ::fcntl(file, F_GETFD) == 0;
}

using ProcessStartDeathTest = testing::Test;

TEST(ProcessStartDeathTest, StandardStreamsThatAreClosedAreOpenedWithTheirModes) {
  const auto close_and_open = [](int closed) {  // bit n: file descriptor n
    for (int stream = 0; stream < 3; ++stream)
      if ((closed >> stream & 1) != 0) ::close(stream);
    prepare_process();
    int wrong = 0;
    for (int stream = 0; stream < 3; ++stream)
      if ((closed >> stream & 1) != 0 && !has_mode(stream, stream == 0 ? O_RDONLY : O_WRONLY))
        wrong |= 1 << stream;
    _exit(wrong);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int closed = 0; closed < 8; ++closed)
    EXPECT_EXIT(close_and_open(closed), testing::ExitedWithCode(0), "") << closed;
}

TEST(ProcessStartDeathTest, AsManyFilesAsTheUserMayHaveCanBeOpen) {
  const auto lower_and_raise = [] {
    const rlimit low = {16, 100};
    ::setrlimit(RLIMIT_NOFILE, &low);
    prepare_process();
    rlimit found = {};
    ::getrlimit(RLIMIT_NOFILE, &found);
    _exit(static_cast<int>(found.rlim_cur));
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lower_and_raise(), testing::ExitedWithCode(100), "");
}

TEST(ProcessStartDeathTest, AFileBeyondTheLimitIsAnErrorOfTheWrite) {
  const auto write_beyond = [] {
    prepare_process();
    const rlimit low = {100, 100};
    ::setrlimit(RLIMIT_FSIZE, &low);
    const ScratchDirectory folder;
    const int file = ::open((folder / "file").c_str(), O_WRONLY | O_CREAT, 0600);
    _exit(::pwrite(file, "x", 1, 99) == 1 && ::pwrite(file, "x", 1, 100) < 0 && errno == EFBIG ? 0
                                                                                               : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(write_beyond(), testing::ExitedWithCode(0), "");
}

TEST(ProcessStartDeathTest, AChildHasAStatusAlsoWhereTheParentIgnoredSuchSignals) {
  const auto wait_for_a_child = [] {
    std::signal(SIGCHLD, SIG_IGN);
    prepare_process();
    const pid_t child = ::fork();
    if (child == 0) _exit(7);
    int status = 0;
    _exit(::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(wait_for_a_child(), testing::ExitedWithCode(7), "");
}

/// Ends with the exit code of a process that ends with `code` after `print`, to a full disk.
template <class Print>
void print_to_full_disk(int code, Print print) {
  std::fflush(stdout);  // what the test has printed itself
  ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
  print();
  _exit(exit_code_with_output(code));
}

TEST(ProcessEndDeathTest, WhatIsPrintedAndLostIsAFailure) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* says = "^trireme: standard output cannot be written: is its disk full\\?\n$";
  const auto by_stream = [] { std::cout << "text\n"; };
  const auto by_file = [] { std::fputs("text\n", stdout); };
  const auto by_log = [] {
    const Log log(0, LogLevel::info);
    for (int i = 0; i < 1000; ++i) log.info("much more than is kept until it can be written");
  };
  EXPECT_EXIT(print_to_full_disk(0, by_stream), testing::ExitedWithCode(1), says);
  EXPECT_EXIT(print_to_full_disk(0, by_file), testing::ExitedWithCode(1), says);
  EXPECT_EXIT(print_to_full_disk(0, by_log), testing::ExitedWithCode(1), says);
  EXPECT_EXIT(print_to_full_disk(75, by_file), testing::ExitedWithCode(75), says);
  EXPECT_EXIT(print_to_full_disk(0, [] {}), testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace trireme
