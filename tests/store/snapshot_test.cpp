// Writing a file from pieces of memory, also when calls of the file system fail at any place.
#include "runtime/store/write/snapshot.h"

#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/io_shim/run_with_shim.h"
#include "tests/store/toy_image.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

constexpr Index mib = block_bytes;

std::vector<Checksum> checksums_of(const std::vector<std::byte>& file) {
  std::vector<Checksum> sums;
  const auto bytes = static_cast<Index>(file.size());
  for (Index at = 0; at < bytes; at += block_bytes)
    sums.push_back(checksum(file.data() + at, std::min(block_bytes, bytes - at)));
  return sums;
}

struct Size {
  Index bytes;
  int pieces;
  Index buffer;
  int threads;
};

TEST(Snapshot, TheFileIsTheImageWhateverRingAndThreads) {
  const ScratchDirectory folder;
  const Size sizes[] = {{1, 0, 0, 1},
                        {5000, 3, 0, 1},
                        {mib, 2, 0, 3},
                        {mib + 1, 50, 1, 2},
                        {21 * mib + 12345, 7, 0, 3},
                        {21 * mib + 12345, 3000, 2 * mib, 3},
                        {21 * mib, 40, 5 * mib - 1, 4},
                        {19 * mib - 4096, 1, 18 * mib, 2}};
  Worker worker;
  for (const Size& size : sizes) {
    const ToyImage image = make_toy_image(size.bytes, size.pieces, 7);
    Snapshot snapshot(image.filled(), size.buffer);
    ThreadPool pool(size.threads);
    const std::string path = folder / std::to_string(&size - sizes);
    snapshot.save(path, pool, worker);
    worker.wait();
    const SnapshotReport& report = snapshot.report();
    EXPECT_EQ(report.error, "");
    EXPECT_EQ(report.bytes, size.bytes);
    EXPECT_GT(report.write_ms, 0);
    EXPECT_GT(report.stall_ms, 0);
    EXPECT_TRUE(bytes_of_file(path) == image.expected) << size.bytes << " bytes";
    EXPECT_EQ(report.blocks, checksums_of(image.expected));
  }
}

TEST(Snapshot, SavesWhatPiecesHoldAtTheTimeOfEachSave) {
  const ScratchDirectory folder;
  ToyImage image = make_toy_image(6 * mib + 99, 20, 3);
  Snapshot snapshot(image.filled(), 0);
  ThreadPool pool(2);
  Worker worker;
  for (int round = 0; round < 3; ++round) {
    const std::string path = folder / std::to_string(round);
    for (std::size_t i = 0; i < image.memory.size(); ++i) {
      std::fill(image.memory[i].begin(), image.memory[i].end(), std::byte(round + 1));
      std::copy(image.memory[i].begin(), image.memory[i].end(),
                image.expected.begin() + image.layout.pieces[i].offset);
    }
    snapshot.save(path, pool, worker);
    for (auto& piece : image.memory) std::fill(piece.begin(), piece.end(), std::byte{0xee});
    worker.wait();
    EXPECT_EQ(snapshot.report().error, "");
    EXPECT_TRUE(bytes_of_file(path) == image.expected) << "round " << round;
  }
}

TEST(Snapshot, TakesNoMoreMemoryThanAskedOrNeeded) {
  EXPECT_EQ(Snapshot::buffer_bytes(10 * mib + 1, 0), 11 * mib);
  EXPECT_EQ(Snapshot::buffer_bytes(10 * mib, 100 * mib), 10 * mib);
  EXPECT_EQ(Snapshot::buffer_bytes(10 * mib, 1), 2 * mib);
  EXPECT_EQ(Snapshot::buffer_bytes(10 * mib, 3 * mib - 5), 3 * mib);
  EXPECT_EQ(Snapshot::buffer_bytes(7, 0), mib);
  const ToyImage image = make_toy_image(10 * mib, 2, 1);
  EXPECT_EQ(Snapshot(image.filled(), 4 * mib).buffer_bytes(), 4 * mib);
}

TEST(Snapshot, RefusesPiecesThatOverlapOrLeaveTheFile) {
  const std::vector<std::byte> memory(100);
  const auto attempt = [&](std::vector<Index> offsets) {
    FileLayout layout{.bytes = 1000};
    for (const Index offset : offsets)
      layout.pieces.push_back(
          {"x", DType::u8, {100}, {{0}, {100}}, memory.data(), MemoryOf::host, offset});
    return message_of([&] { Snapshot(layout, 0); });
  };
  EXPECT_EQ(attempt({900, 800}), "");
  EXPECT_THAT(attempt({0, 99}), HasSubstr("overlaps"));
  EXPECT_THAT(attempt({0, 901}), HasSubstr("leaves the file"));
}

TEST(Snapshot, RefusesPiecesWithoutMemory) {
  const FileLayout layout{.bytes = 1000, .pieces = {{"x", DType::u8, {100}, {{0}, {100}}}}};
  EXPECT_THAT(message_of([&] { Snapshot(layout, 0); }),
              HasSubstr("the piece of tensor x at 0 has no memory"));
}

TEST(Snapshot, AFileThatExistsIsLeftAlone) {
  const ScratchDirectory folder;
  write_bytes(folder / "file", {std::byte{1}});
  const ToyImage image = make_toy_image(30 * mib, 2, 1);
  Snapshot snapshot(image.filled(), 2 * mib);
  ThreadPool pool(2);
  Worker worker;
  snapshot.save(folder / "file", pool, worker);  // returns although the ring is too small
  worker.wait();
  EXPECT_EQ(snapshot.report().error, folder / "file" + ": open: File exists");
  EXPECT_EQ(bytes_of_file(folder / "file").size(), 1u);
  snapshot.save(folder / "other", pool, worker);
  worker.wait();
  EXPECT_EQ(snapshot.report().error, "");
}

// Saves two files in another process, with a fault in the first one; `buffer_mib` 2 is far smaller
// than the image.
class Faulty {
 public:
  static constexpr Index bytes = 4 * mib + 5000;

  ShimRun save(long call, const std::string& what, int buffer_mib) {
    for (const char* name : {"file.0", "file.1"}) std::filesystem::remove(folder_ / name);
    const std::string command = "timeout 60 " TRIREME_STORE_TOOL " save " +
                                quoted(folder_ / "file") + " 2 " + std::to_string(bytes) +
                                " 5 11 " + std::to_string(buffer_mib * mib) + " 2";
    return run_with_shim(command, {.root = folder_.path(), .call = call, .what = what},
                         logs_ / "log");
  }
  bool good(int file) const {
    return bytes_of_file(folder_ / ("file." + std::to_string(file))) == image_.expected;
  }
  std::string path(int file) const { return folder_ / ("file." + std::to_string(file)); }
  /// Counted calls of one save without a fault.
  long calls(int buffer_mib) { return save(0, "", buffer_mib).calls / 2; }

 private:
  ScratchDirectory folder_, logs_;
  ToyImage image_ = make_toy_image(bytes, 5, 11);
};

TEST(SnapshotFaults, AnErrorAtAnyCallIsReportedAndTheNextSaveWorks) {
  Faulty faulty;
  const long calls = faulty.calls(2);
  ASSERT_GE(calls, 5);  // open, fallocate, pwrite..., ftruncate, fsync
  const std::string errors[] = {"ENOSPC", "EIO", "EDQUOT"};
  for (long call = 1; call <= calls; ++call) {
    const std::string& error = errors[call % 3];
    const ShimRun run = faulty.save(call, error, 2);
    EXPECT_EQ(run.code, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr("error=" + faulty.path(0) + ": ")) << error << call;
    EXPECT_TRUE(faulty.good(1)) << error << call;
  }
}

TEST(SnapshotFaults, ADiskThatStaysBrokenStopsTheCallerInTheMiddle) {
  Faulty faulty;
  for (const long call : {2, 4, 5}) {
    const ShimRun run = faulty.save(call, "EIO+", 2);
    EXPECT_EQ(run.code, 3) << run.output;
    EXPECT_THAT(run.output, HasSubstr("Input/output error"));
  }
}

TEST(SnapshotFaults, InterruptedAndShortCallsAreContinued) {
  Faulty faulty;
  const auto is_continued = [&](long call, const std::string& fault, int buffer_mib) {
    const ShimRun run = faulty.save(call, fault, buffer_mib);
    EXPECT_EQ(run.code, 0) << fault << call << run.output;
    EXPECT_TRUE(faulty.good(0) && faulty.good(1)) << fault << call;
  };
  const long calls = faulty.calls(2);
  for (long call = 1; call <= calls; ++call) {
    is_continued(call, "EINTR", 2);
    is_continued(call, "short", 2);
  }
  for (const int buffer_mib : {2, 0}) {
    is_continued(1, "EINTR+", buffer_mib);
    is_continued(1, "short+", buffer_mib);
  }
}

TEST(SnapshotFaults, WithoutDirectTransfersItWritesBufferedAndSaysSo) {
  Faulty faulty;
  EXPECT_THAT(faulty.save(0, "", 2).output, HasSubstr("direct=1 reserved=1"));
  for (const std::string fault : {"direct=EINVAL", "direct=transfer", "direct=EINVAL,short+"}) {
    const ShimRun run = faulty.save(1, fault, 2);
    EXPECT_EQ(run.code, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr("direct=0 reserved=1 error=\n"));
    EXPECT_TRUE(faulty.good(0) && faulty.good(1)) << fault;
  }
}

TEST(SnapshotFaults, WithoutReservationItWritesAndSaysSo) {
  Faulty faulty;
  const ShimRun run = faulty.save(0, "reserve=EOPNOTSUPP", 2);
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("reserved=0 error=\n"));
  EXPECT_TRUE(faulty.good(0) && faulty.good(1));
}

TEST(SnapshotFaults, TheShimKillsAtEveryCall) {
  Faulty faulty;
  const long calls = faulty.calls(2);
  for (const std::string fault : {"die_before", "die_half", "die_after", "kill"}) {
    for (long call = 1; call <= calls; call += 2) {
      const ShimRun run = faulty.save(call, fault, 2);
      EXPECT_EQ(run.code, 137) << fault << call << run.output;
      EXPECT_EQ(run.calls, call);
      EXPECT_FALSE(std::filesystem::exists(faulty.path(1)));
    }
  }
}

#ifdef TRIREME_CAN_MOUNT
// A file system of 4 MiB, in a namespace of its own.
TEST(SnapshotFaults, AFullDiskIsFoundBeforeAnythingIsWritten) {
  const ScratchDirectory folder;
  const std::string in_namespace = "unshare --mount sh -c ";
  const std::string mount = "mount -t tmpfs -o size=4m tmpfs " + quoted(folder.path());
  const std::string script = mount + " && " TRIREME_STORE_TOOL " save " + quoted(folder / "file") +
                             " 1 " + std::to_string(9 * mib) + " 5 11 " + std::to_string(2 * mib) +
                             " 2; code=$?; stat -c %s " + quoted(folder / "file.0") +
                             "; exit $code";
  FILE* pipe = ::popen((in_namespace + quoted(script) + " 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char text[4096] = {};
  std::fread(text, 1, sizeof text - 1, pipe);
  const int status = ::pclose(pipe);
  EXPECT_EQ(WEXITSTATUS(status), 3) << text;
  EXPECT_THAT(text,
              HasSubstr("file.0: fallocate of 9.0 MiB, where 4.0 MiB are free: No space left on "
                        "device\n0\n"));
}
#endif

}  // namespace
}  // namespace trireme
