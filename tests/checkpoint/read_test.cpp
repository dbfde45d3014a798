// Boxes that come through the host in batches are those that come at once.
#include "runtime/checkpoint/read.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"
#include "trireme/kernels/device.h"

#include "tests/store/toy_step.h"
#include "tests/support/message_of.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme::checkpoint {
namespace {

class ReadInBatches : public ::testing::Test {
 protected:
  void want(const Manifest::Tensor& tensor, const Box& box) {
    memory_.emplace_back(static_cast<std::size_t>(box.count() * size_bytes(tensor.dtype)));
    wanted_.push_back({tensor.name, tensor.dtype, tensor.global, box, memory_.back().data()});
  }
  void want_many() {
    for (int i = 0; i < 10; ++i)
      for (const Manifest::Tensor& tensor : step_.manifest.tensors)
        if (i == 0 || tensor.global.count() < 10000) want(tensor, step_.random_box(tensor.global));
  }
  ReadReport read(Index most) {
    StepSource source(folder_.path(), step_.manifest);
    return read_in_batches(*stream_, source, wanted_, 2, most);
  }
  void clear() {
    for (auto& box : memory_) std::fill(box.begin(), box.end(), std::byte{0});
  }
  Index wanted_bytes() const {
    Index all = 0;
    for (const auto& box : memory_) all += static_cast<Index>(box.size());
    return all;
  }
  void expect_all_there() { expect_all_of(step_); }
  void expect_all_of(const ToyStep& step) {
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      EXPECT_TRUE(memory_[i] ==
                  step.expected(*step_.manifest.find(wanted_[i].tensor), wanted_[i].box))
          << wanted_[i].tensor << " " << wanted_[i].box.begin << " " << wanted_[i].box.size;
  }

  const ScratchDirectory folder_;
  ToyStep step_{folder_.path(), 1};
  const std::unique_ptr<Device> device_ = open_cpu();
  const std::unique_ptr<Stream> stream_ = device_->make_stream();
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Wanted> wanted_;
};

TEST_F(ReadInBatches, IsTheSameWhateverTheirSize) {
  want_many();
  for (const Index most : {Index{100003}, Index{1} << 20, wanted_bytes(), passing_bytes}) {
    clear();
    const ReadReport report = read(most);
    EXPECT_EQ(report.bytes_used, wanted_bytes());
    EXPECT_GE(report.bytes_read, report.bytes_used / 2);
    EXPECT_GT(report.ms, 0);
    expect_all_there();
  }
}

/// As where a job goes back to the step before: nothing is left of what the first batches had put
/// in place.
TEST_F(ReadInBatches, LeaveNothingOfADamagedStepBehindTheNextOne) {
  const ScratchDirectory before_folder;
  const ToyStep before(before_folder.path(), 2);
  want_many();
  const Manifest::Tensor& large = *step_.manifest.find("t14");  // i64 (2, 300000)
  want(large, {large.global, large.global});
  wanted_.back().box.begin = Shape{0, 0};
  const Manifest::Stored& piece = large.pieces.back();
  const std::string& name = step_.manifest.files[static_cast<std::size_t>(piece.file)].name;
  test::flip_bit(folder_ / name, piece.offset);
  clear();
  EXPECT_THAT(message_of([&] { read(1 << 20); }), ::testing::HasSubstr(name + ": block"));
  EXPECT_TRUE(std::any_of(memory_.begin(), memory_.end(), [](const auto& box) {
    return std::any_of(box.begin(), box.end(), [](std::byte b) { return b != std::byte{0}; });
  }));
  StepSource source(before_folder.path(), before.manifest);
  read_in_batches(*stream_, source, wanted_, 2, 1 << 20);
  expect_all_of(before);
}

TEST_F(ReadInBatches, OfOneElementEachAreEnough) {
  for (const Manifest::Tensor& tensor : step_.manifest.tensors) {
    Box box = step_.random_box(tensor.global);
    for (int d = 0; d < box.size.dims(); ++d) box.size[d] = std::min<Index>(box.size[d], 2);
    want(tensor, box);
  }
  read(size_bytes(DType::i64));
  expect_all_there();
}

TEST_F(ReadInBatches, ThatHoldNoElementAreRefused) {
  want(step_.manifest.tensors.front(), step_.random_box(step_.manifest.tensors.front().global));
  EXPECT_THAT(message_of([&] { read(1); }), ::testing::HasSubstr("holds no element"));
}

/// As to_bf16, of packed f32.
std::vector<std::byte> rounded(const std::vector<std::byte>& values) {
  std::vector<std::byte> all(values.size() / 2);
  for (std::size_t i = 0; i < all.size(); i += sizeof(Bf16)) {
    float value;
    std::memcpy(&value, values.data() + 2 * i, sizeof value);
    const Bf16 kept = to_bf16(value);
    std::memcpy(all.data() + i, &kept, sizeof kept);
  }
  return all;
}

TEST_F(ReadInBatches, OfF32AreRoundedWhereBf16IsKept) {
  want_many();
  StepSource source(folder_.path(), step_.manifest);
  for (const Index most : {Index{100003}, passing_bytes}) {
    clear();
    read_in_batches(*stream_, source, wanted_, 2, most, {}, DType::bf16);
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const Manifest::Tensor& tensor = *step_.manifest.find(wanted_[i].tensor);
      std::vector<std::byte> expected = step_.expected(tensor, wanted_[i].box);
      if (tensor.dtype == DType::f32) {
        expected = rounded(expected);
        expected.resize(memory_[i].size());  // nothing is written behind them
      }
      EXPECT_TRUE(memory_[i] == expected) << wanted_[i].tensor;
    }
  }
}

/// Fills the first element of each box, a byte, with 1.
class FirstElements final : public TensorSource {
 public:
  ReadReport read(const std::vector<Wanted>& wanted, int, const std::function<void()>&) override {
    for (const Wanted& box : wanted) *static_cast<std::byte*>(box.data) = std::byte{1};
    return {};
  }
  bool fills(const Wanted& wanted) const override { return wanted.box.count() == 1; }
};

// The rows of a larger vocabulary, which a file lacks, begin with the values that were drawn.
TEST_F(ReadInBatches, LeaveWhatTheSourceLacksAsItWas) {
  std::vector<std::byte> memory(10, std::byte{7});
  const Box box{Shape{0}, Shape{10}};
  FirstElements source;
  read_in_batches(*stream_, source, {{"t", DType::u8, Shape{10}, box, memory.data()}}, 1, 5);
  std::vector<std::byte> expected(10, std::byte{7});
  expected[0] = expected[5] = std::byte{1};
  EXPECT_EQ(memory, expected);
}

/// The same in f32, of values that are kept in bf16.
class FirstFloats final : public TensorSource {
 public:
  ReadReport read(const std::vector<Wanted>& wanted, int, const std::function<void()>&) override {
    for (const Wanted& box : wanted) *static_cast<float*>(box.data) = 1;
    return {};
  }
  bool fills(const Wanted&) const override { return false; }
};

TEST_F(ReadInBatches, LeaveWhatTheSourceLacksAsItWasInBf16) {
  std::vector<Bf16> memory(10, to_bf16(7));
  FirstFloats source;
  const Box box{Shape{0}, Shape{10}};
  read_in_batches(*stream_, source, {{"t", DType::f32, Shape{10}, box, memory.data()}}, 1, 20, {},
                  DType::bf16);
  for (std::size_t i = 0; i < memory.size(); ++i)
    EXPECT_EQ(to_float(memory[i]), i % 5 == 0 ? 1 : 7) << i;
}

TEST(ReadingBytes, AreThoseOfReadersAndOnAGpuAPassageOfLimitedSize) {
  constexpr Index readers = 2 * 8 * (Index{1} << 20);
  EXPECT_EQ(reading_bytes(true, Index{1} << 40, 2), readers);
  EXPECT_EQ(reading_bytes(false, 1000, 2), readers + 1000);
  EXPECT_EQ(reading_bytes(false, Index{1} << 40, 2), readers + passing_bytes);
}

}  // namespace
}  // namespace trireme::checkpoint
