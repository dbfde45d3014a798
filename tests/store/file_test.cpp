// Files and directories of checkpoints: direct and buffered transfers, and errors with their
// causes.
#include "runtime/store/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "tests/io_shim/run_with_shim.h"
#include "tests/store/toy_image.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Index page = File::direct_alignment;

Buffer random_buffer(Index bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  Buffer buffer = allocate_host(bytes);
  const auto content = random_bytes(bytes, random);
  std::memcpy(buffer.data(), content.data(), content.size());
  return buffer;
}

TEST(File, WritesAndReadsDirectlyAndBuffered) {
  const ScratchDirectory folder;
  const Index bytes = 5 * page, size = 4 * page + 777;
  const Buffer content = random_buffer(bytes, 1), read = allocate_host(bytes);
  for (const Caching caching : {Caching::direct, Caching::buffered}) {
    const std::string path = folder / (caching == Caching::direct ? "direct" : "buffered");
    File file = File::create(path, caching);
    file.reserve(bytes);
    file.write_at(2 * page, content.data() + 2 * page, 3 * page);
    file.write_at(0, content.data(), 2 * page);
    file.truncate(size);
    file.sync();
    EXPECT_EQ(file.size(), size);
    file.close();
    for (const Caching how : {Caching::direct, Caching::buffered}) {
      const File again = File::open(path, how);
      std::memset(read.data(), 0, static_cast<std::size_t>(bytes));
      EXPECT_EQ(again.read_at(0, read.data(), bytes), size);
      EXPECT_EQ(std::memcmp(read.data(), content.data(), static_cast<std::size_t>(size)), 0);
      EXPECT_EQ(again.read_at(4 * page, read.data(), page), 777);
      EXPECT_EQ(again.read_at(8 * page, read.data(), page), 0);
    }
  }
}

TEST(File, ErrorsNamePathCallAndReason) {
  const ScratchDirectory folder;
  const std::string path = folder / "file";
  EXPECT_EQ(message_of([&] { File::open(path, Caching::buffered); }),
            path + ": open: No such file or directory");
  File::create(path, Caching::buffered);
  EXPECT_EQ(message_of([&] { File::create(path, Caching::direct); }), path + ": open: File exists");
  const File reader = File::open(path, Caching::buffered);
  EXPECT_EQ(message_of([&] { reader.write_at(0, "x", 1); }),
            path + ": pwrite: Bad file descriptor");
  EXPECT_THAT(message_of([&] { list_directory(path); }), StartsWith(path + ": opendir: Not a dir"));
  EXPECT_THAT(message_of([&] { make_directory(path); }), StartsWith(path + ": mkdir: Not a dir"));
  EXPECT_THAT(message_of([&] { make_directory(folder / "a/b"); }),
              HasSubstr("a/b: mkdir: No such"));
  EXPECT_THAT(message_of([&] { rename_path(folder / "a", folder / "b"); }),
              HasSubstr(": rename: No"));
  EXPECT_THAT(message_of([&] { sync_directory(folder / "a"); }), HasSubstr("a: open: No such"));
  EXPECT_THAT(message_of([&] { remove_file(folder.path()); }), HasSubstr(": unlink: "));
}

TEST(File, IsNoPipeThatIsWaitedFor) {
  const ScratchDirectory folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { File::open(pipe, Caching::direct); }),
            pipe + ": is a pipe, but a file is needed here");
  EXPECT_THAT(message_of([&] { read_whole(pipe, 10); }), HasSubstr("is a pipe"));
}

TEST(File, MovesItsDescriptor) {
  const ScratchDirectory folder;
  File a = File::create(folder / "a", Caching::buffered);
  File b = File::create(folder / "b", Caching::buffered);
  b = std::move(a);
  const File c = std::move(b);
  c.write_at(0, "abc", 3);
  EXPECT_EQ(read_whole(folder / "a", 10), "abc");
  EXPECT_EQ(read_whole(folder / "b", 10), "");
}

TEST(Paths, WholeFilesAreNewAndLimited) {
  const ScratchDirectory folder;
  write_whole(folder / "text", "some text");
  EXPECT_EQ(read_whole(folder / "text", 9), "some text");
  EXPECT_THAT(message_of([&] { read_whole(folder / "text", 8); }), HasSubstr("has 9 bytes, more"));
  EXPECT_THAT(message_of([&] { write_whole(folder / "text", "x"); }), HasSubstr("File exists"));
}

TEST(Paths, LinesAreAddedAndTheLastOnesAreRead) {
  const ScratchDirectory folder;
  const std::string path = folder / "lines";
  constexpr Index all = 1000;
  EXPECT_EQ(read_last_lines(path, all), "");
  append_line(path, "one\n");
  append_line(path, "two\n");
  EXPECT_EQ(read_last_lines(path, all), "one\ntwo\n");
  EXPECT_EQ(read_last_lines(path, 7), "two\n") << "the first is cut";
  EXPECT_EQ(read_last_lines(path, 3), "");
  File::open_to_write(path, Caching::buffered).write_at(8, "thr", 3);
  EXPECT_EQ(read_last_lines(path, all), "one\ntwo\n") << "the last is cut";
  append_line(path, "four\n");
  EXPECT_EQ(read_last_lines(path, all), "one\ntwo\nthr\nfour\n");
}

TEST(Paths, DirectoriesAreMadeListedExchangedAndRemoved) {
  const ScratchDirectory folder;
  make_directory(folder / "b");
  make_directory(folder / "b");
  make_directory(folder / "a");
  write_whole(folder / "a/file", "");
  EXPECT_THAT(list_directory(folder.path()), ElementsAre("a", "b"));
  if (exchange_paths(folder / "a", folder / "b")) {
    EXPECT_THAT(list_directory(folder / "b"), ElementsAre("file"));
  } else {
    rename_path(folder / "a/file", folder / "b/file");
  }
  EXPECT_THAT(message_of([&] { remove_directory(folder / "b"); }),
              HasSubstr("b: rmdir: Directory"));
  EXPECT_THAT(message_of([&] { exchange_paths(folder / "b", folder / "x"); }),
              HasSubstr("renameat2"));
  remove_file(folder / "b/file");
  remove_file(folder / "b/file");
  sync_directory(folder / "b");
  remove_directory(folder / "b");
  remove_directory(folder / "b");
  EXPECT_THAT(list_directory(folder.path()), ElementsAre("a"));
}

TEST(File, ReadsWhereDirectTransfersAreRefused) {
  const ScratchDirectory folder, logs;
  const ToyImage image = make_toy_image(3 * page + 11, 2, 5);
  const std::string sum =
      to_text(checksum(image.expected.data(), static_cast<Index>(image.expected.size())));
  write_bytes(folder / "file", image.expected);
  for (const std::string fault : {"direct=EINVAL", "direct=transfer"}) {
    const ShimRun run = run_with_shim(TRIREME_STORE_TOOL " read " + quoted(folder / "file"),
                                      {.root = folder.path(), .what = fault}, logs / "log");
    EXPECT_EQ(run.code, 0) << run.output;
    EXPECT_EQ(run.output, "direct=0 " + sum + "\n");
    EXPECT_GT(run.calls, 0) << "the shim saw nothing";
  }
}

}  // namespace
}  // namespace trireme
