// Reading any box of a stored tensor, and the check of every block of a step.
#include "runtime/store/read/reader.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"

#include "tests/store/toy_step.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme {
namespace {

using test::flip_bit;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Wanted wanted_of(const Manifest::Tensor& tensor, const Box& box, void* data) {
  return {tensor.name, tensor.dtype, tensor.global, box, data};
}

Box whole_of(const Shape& shape) {
  Box box{shape, shape};
  for (int d = 0; d < shape.dims(); ++d) box.begin[d] = 0;
  return box;
}

/// Boxes to read, with memory of their own.
struct Request {
  std::vector<Wanted> wanted;
  std::vector<std::vector<std::byte>> memory;
  void add(const Manifest::Tensor& tensor, const Box& box) {
    memory.emplace_back(static_cast<std::size_t>(box.count() * size_bytes(tensor.dtype)));
    wanted.push_back(wanted_of(tensor, box, memory.back().data()));
  }
};

TEST(Reader, AnyBoxComesOutOfAnyStoredBoxes) {
  const ScratchDirectory folder;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    ToyStep step(folder.path(), seed);
    for (int threads = 1; threads <= 4; ++threads) {
      Request request;
      for (int i = 0; i < 40; ++i) {
        const auto& tensor = step.manifest.tensors[static_cast<std::size_t>(
            step.below(static_cast<Index>(step.manifest.tensors.size())))];
        request.add(tensor, i % 5 == 0 ? whole_of(tensor.global) : step.random_box(tensor.global));
      }
      const ReadReport report = read_boxes(folder.path(), step.manifest, request.wanted, threads);
      Index used = 0;
      for (std::size_t i = 0; i < request.wanted.size(); ++i) {
        const Wanted& wanted = request.wanted[i];
        used += static_cast<Index>(request.memory[i].size());
        EXPECT_TRUE(request.memory[i] ==
                    step.expected(*step.manifest.find(wanted.tensor), wanted.box))
            << wanted.tensor << " " << wanted.box.begin << " " << wanted.box.size;
      }
      EXPECT_EQ(report.bytes_used, used);
      EXPECT_GT(report.ms, 0);
    }
  }
}

TEST(Reader, SaysThatItHasReadAfterEachRead) {
  const ScratchDirectory folder;
  ToyStep step(folder.path(), 1);
  Request request;
  for (const auto& tensor : step.manifest.tensors) request.add(tensor, whole_of(tensor.global));
  std::atomic<int> reads = 0;
  read_boxes(folder.path(), step.manifest, request.wanted, 2, [&] { ++reads; });
  EXPECT_GE(reads, static_cast<int>(step.manifest.files.size()));
}

/// The blocks in which elements of the box lie, element by element, as (file, block).
std::set<std::pair<int, Index>> blocks_of_box(const Manifest::Tensor& tensor, const Box& box) {
  std::set<std::pair<int, Index>> blocks;
  const Index item = size_bytes(tensor.dtype);
  for (const Manifest::Stored& piece : tensor.pieces)
    for (Index i = 0; i < piece.box.count(); ++i) {
      Index rest = i;
      bool inside = true;
      for (int d = tensor.global.dims() - 1; d >= 0; --d) {
        const Index at = piece.box.begin[d] + rest % piece.box.size[d];
        rest /= piece.box.size[d];
        inside = inside && at >= box.begin[d] && at < box.begin[d] + box.size[d];
      }
      if (!inside) continue;
      blocks.insert({piece.file, (piece.offset + i * item) / block_bytes});
      blocks.insert({piece.file, (piece.offset + (i + 1) * item - 1) / block_bytes});
    }
  return blocks;
}

TEST(Reader, ReadsOnlyBlocksThatAreNeededAndEachOnce) {
  const ScratchDirectory folder;
  ToyStep step(folder.path(), 5);
  for (const Manifest::Tensor& tensor : step.manifest.tensors) {
    const Box box = step.random_box(tensor.global);
    Request request;
    request.add(tensor, box);
    request.add(tensor, box);
    Index bytes = 0;
    for (const auto& [file, block] : blocks_of_box(tensor, box))
      bytes += std::min(block_bytes, step.manifest.files[static_cast<std::size_t>(file)].bytes -
                                         block * block_bytes);
    EXPECT_EQ(read_boxes(folder.path(), step.manifest, request.wanted, 2).bytes_read, bytes)
        << tensor.global << box.begin << box.size;
  }
}

TEST(Reader, SkipsTheBlocksBetweenTheRowsOfAColumn) {
  const ScratchDirectory folder;
  std::mt19937_64 random(4);
  const Index columns = 3 * block_bytes;
  const auto content = random_bytes(3 * columns, random);
  write_bytes(folder / "file", content);
  Manifest manifest;
  manifest.files.push_back({"file", 3 * columns, {}});
  for (Index block = 0; block < 9; ++block)
    manifest.files[0].blocks.push_back(checksum(content.data() + block * block_bytes, block_bytes));
  manifest.tensors.push_back({"wide", DType::u8, {3, columns}, {{0, 0, {{0, 0}, {3, columns}}}}});
  Request request;
  request.add(manifest.tensors[0], {{0, block_bytes - 2}, {3, 1}});
  request.add(manifest.tensors[0], {{1, block_bytes - 2}, {1, 4}});  // over a boundary of blocks
  const ReadReport report = read_boxes(folder.path(), manifest, request.wanted, 2);
  EXPECT_EQ(report.bytes_read, 4 * block_bytes);
  for (Index row = 0; row < 3; ++row)
    EXPECT_EQ(request.memory[0][static_cast<std::size_t>(row)],
              content[static_cast<std::size_t>(row * columns + block_bytes - 2)]);
}

TEST(Reader, ReadsBoxesOfBf16AsF32WhereThatIsWanted) {
  const ScratchDirectory folder;
  constexpr Index rows = 3, columns = 5, first = 64;  // bytes of something else before it
  std::vector<Bf16> numbers;
  for (Index i = 0; i < rows * columns; ++i)
    numbers.push_back(to_bf16(0.37f * static_cast<float>(i) - 2));
  std::vector<std::byte> content(first + numbers.size() * sizeof(Bf16));
  std::memcpy(content.data() + first, numbers.data(), numbers.size() * sizeof(Bf16));
  write_bytes(folder / "file", content);
  const auto bytes = static_cast<Index>(content.size());
  Manifest manifest;
  manifest.files.push_back({"file", bytes, {checksum(content.data(), bytes)}});
  manifest.tensors.push_back(
      {"narrow", DType::bf16, {rows, columns}, {{0, first, {{0, 0}, {rows, columns}}}}});
  std::vector<float> wide(2 * 3, 9);
  read_boxes(folder.path(), manifest,
             {{"narrow", DType::f32, {rows, columns}, {{1, 2}, {2, 3}}, wide.data()}}, 2);
  for (std::size_t i = 0; i < wide.size(); ++i)
    EXPECT_EQ(wide[i], to_float(numbers[(1 + i / 3) * columns + 2 + i % 3])) << i;
  EXPECT_THROW(
      read_boxes(folder.path(), manifest,
                 {{"narrow", DType::f64, {rows, columns}, {{0, 0}, {1, 1}}, wide.data()}}, 1),
      Error);
}

TEST(Reader, ADamagedBlockIsNamedWhenNeededAndNotReadOtherwise) {
  const ScratchDirectory folder;
  ToyStep step(folder.path(), 6);
  const auto file = static_cast<std::size_t>(step.below(3));
  const std::string path = folder / step.manifest.files[file].name;
  for (Index block = 0; block < blocks_of(step.manifest.files[file].bytes); block += 2) {
    const Index size = std::min(block_bytes, step.manifest.files[file].bytes - block * block_bytes);
    const Index byte = block * block_bytes + step.below(size);
    flip_bit(path, byte);
    for (const Manifest::Tensor& tensor : step.manifest.tensors) {
      Request request;
      request.add(tensor, whole_of(tensor.global));
      const bool needed =
          blocks_of_box(tensor, whole_of(tensor.global)).contains({static_cast<int>(file), block});
      const std::string text =
          message_of([&] { read_boxes(folder.path(), step.manifest, request.wanted, 3); });
      if (needed) {
        EXPECT_THAT(text, HasSubstr(path + ": block " + std::to_string(block) + " (tensor"));
        EXPECT_THAT(text, HasSubstr(" is damaged"));
      } else {
        EXPECT_EQ(text, "");
      }
    }
    flip_bit(path, byte);
  }
}

TEST(Reader, MissingAndTruncatedFilesAreNamedWithTheTensor) {
  const ScratchDirectory folder;
  ToyStep step(folder.path(), 7);
  const Manifest::Tensor& tensor = step.manifest.tensors[3];
  const Manifest::File& file =
      step.manifest.files[static_cast<std::size_t>(tensor.pieces.front().file)];
  Request request;
  request.add(tensor, tensor.pieces.front().box);
  const auto problem = [&] {
    return message_of([&] { read_boxes(folder.path(), step.manifest, request.wanted, 2); });
  };
  const std::string path = folder / file.name, end = " (tensor " + tensor.name + ")";
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(file.bytes - 1));
  EXPECT_EQ(problem(), str(path, ": has ", file.bytes - 1, " bytes instead of ", file.bytes, end));
  std::filesystem::remove(path);
  EXPECT_EQ(problem(), path + ": is missing" + end);
  std::filesystem::create_directory(path);
  EXPECT_EQ(problem(), path + ": is not a file" + end);
}

TEST(Reader, WhatDoesNotFitTheTensorIsRefused) {
  const ScratchDirectory folder;
  ToyStep step(folder.path(), 8);
  const Manifest::Tensor& tensor = *step.manifest.find("t9");
  ASSERT_EQ(tensor.global, (Shape{300, 700}));
  const auto problem = [&](const Wanted& wanted) {
    return message_of([&] { read_boxes(folder.path(), step.manifest, {wanted}, 1); });
  };
  const Box box{{0, 0}, {300, 700}};
  EXPECT_THAT(problem({"nothing", tensor.dtype, tensor.global, box}),
              HasSubstr("has no tensor nothing"));
  EXPECT_THAT(problem({"t9", DType::u8, tensor.global, box}),
              HasSubstr("tensor t9 is f32 (300, 700) there, not u8 (300, 700)"));
  EXPECT_THAT(problem({"t9", tensor.dtype, {700, 300}, box}), HasSubstr("not f32 (700, 300)"));
  EXPECT_THAT(problem({"t9", tensor.dtype, tensor.global, {{1, 0}, {300, 700}}}),
              HasSubstr("is not inside"));
  EXPECT_THAT(problem({"t9", tensor.dtype, tensor.global, {{0}, {300}}}),
              HasSubstr("is not inside"));
  EXPECT_EQ(problem({"t9", tensor.dtype, tensor.global, {{0, 0}, {0, 700}}}), "");
}

TEST(Verify, FindsNothingInAGoodStepAndReportsProgress) {
  const ScratchDirectory folder;
  ToyStep step(folder.path(), 9);
  Index last = 0, all = 0;
  const auto progress = [&](Index done, Index total) {
    EXPECT_GT(done, last);
    last = done;
    all = total;
  };
  EXPECT_THAT(verify_step(folder.path(), step.manifest, 3, progress), IsEmpty());
  EXPECT_EQ(last, all);
  Index bytes = 0;
  for (const Manifest::File& file : step.manifest.files) bytes += file.bytes;
  EXPECT_EQ(all, bytes);
}

TEST(Verify, NamesEveryDamagedBlockMissingAndExtraFile) {
  const ScratchDirectory folder;
  ToyStep step(folder.path(), 10);
  // The gap before the first piece of a file belongs to no tensor; what is in the last block of
  // file-1 has a name.
  step.manifest.tensors.resize(1);
  step.manifest.tensors[0].name = "only";
  step.manifest.tensors[0].pieces = {{1, 100, step.manifest.tensors[0].pieces[0].box}};
  flip_bit(folder / "file-1", 5);
  flip_bit(folder / "file-1", 2 * block_bytes + 17);
  std::filesystem::resize_file(folder / "file-0", 10);
  std::filesystem::remove(folder / "file-2");
  write_bytes(folder / "stray", {});
  EXPECT_THAT(
      verify_step(folder.path(), step.manifest, 2),
      ElementsAre("file-0: has 10 bytes instead of " + std::to_string(step.manifest.files[0].bytes),
                  "file-1: block 0 (tensor only) is damaged",
                  "file-1: block 2 (structure) is damaged", "file-2: is missing",
                  "stray: is not part of this checkpoint"));
}

}  // namespace
}  // namespace trireme
