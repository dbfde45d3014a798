// Conversion of elements, rectangles of tensors, and files that come back as they were written.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/store/safetensors/reader.h"
#include "runtime/store/safetensors/writer.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_safetensors.h"

namespace trireme::safetensors {
namespace {

using namespace std::string_literals;
using test::random_tensor;
using test::RawTensor;
using test::safetensors_of;
using ::testing::HasSubstr;

/// By the definition of binary16, without bits.
double half_by_definition(unsigned half) {
  const double sign = (half & 0x8000u) != 0 ? -1 : 1;
  const int exponent = static_cast<int>((half >> 10) & 31u),
            mantissa = static_cast<int>(half & 1023u);
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(SafetensorsElement, EveryHalfIsItsDefinitionAndComesBack) {
  for (unsigned i = 0; i <= 0xffffu; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float x = half_to_float(half);
    const double expected = half_by_definition(i);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(x)) << i;
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(x)))) << i;
    } else {
      ASSERT_EQ(static_cast<double>(x), expected) << i;
      ASSERT_EQ(float_to_half(x), half) << i;
    }
  }
}

// Several are converted at a time.
TEST(SafetensorsElement, ManyHalvesAreWidenedAsOne) {
  std::vector<std::uint16_t> halves(0x10000);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  std::vector<float> floats(halves.size());
  for (const std::size_t first : {0, 1, 3}) {
    const std::size_t count = halves.size() - 2 * first;
    to_f32(Element::f16, halves.data() + first, static_cast<Index>(count), floats.data());
    for (std::size_t i = 0; i < count; ++i) {
      const float x = half_to_float(halves[first + i]);
      if (std::isnan(x))
        ASSERT_TRUE(std::isnan(floats[i])) << first + i;
      else
        ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[i]), std::bit_cast<std::uint32_t>(x))
            << first + i;
    }
  }
}

TEST(SafetensorsElement, FloatsRoundToTheNearestHalfTiesToEven) {
  for (unsigned i = 0; i < 0x7bffu; ++i) {  // finite, and so is the next
    const auto low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(i + 1);
    const float a = half_to_float(low), b = half_to_float(high), middle = (a + b) / 2;
    ASSERT_EQ(float_to_half(std::nextafter(middle, a)), low) << i;
    ASSERT_EQ(float_to_half(std::nextafter(middle, b)), high) << i;
    ASSERT_EQ(float_to_half(middle), i % 2 == 0 ? low : high) << i;
    ASSERT_EQ(float_to_half(-middle), (i % 2 == 0 ? low : high) | 0x8000) << i;
  }
  EXPECT_EQ(float_to_half(65519.f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.f), 0x7c00);
  EXPECT_EQ(float_to_half(1e-10f), 0);
}

TEST(SafetensorsElement, DoublesRoundToTheNearestFloat) {
  const double stored[] = {1.0, 1 + 0x1p-25, 1 + 3 * 0x1p-24, -0x1p-149, 1e300};
  float floats[5];
  to_f32(Element::f64, stored, 5, floats);
  EXPECT_EQ(floats[0], 1.0f);
  EXPECT_EQ(floats[1], 1.0f);
  EXPECT_EQ(floats[2], 1 + 0x1p-22f);  // half way: to even
  EXPECT_EQ(floats[3], -0x1p-149f);
  EXPECT_EQ(floats[4], INFINITY);  // which reading a model refuses
  double back[5];
  EXPECT_EQ(from_f32(Element::f64, floats, 4, back), -1);
  EXPECT_EQ(back[2], 1 + 0x1p-22);
  for (const Element element : {Element::f32, Element::bf16, Element::f16, Element::f64})
    EXPECT_EQ(parse_element(name_in_file(element)), element);
}

TEST(SafetensorsElement, SaysWhichNumberATypeCannotHold) {
  const float numbers[] = {1, INFINITY, -70000, 70000, 3.4e38f};
  std::uint16_t stored[5];
  EXPECT_EQ(from_f32(Element::f16, numbers, 5, stored), 2);
  EXPECT_EQ(from_f32(Element::f16, numbers, 2, stored), -1);
  EXPECT_EQ(from_f32(Element::bf16, numbers, 4, stored), -1);
  EXPECT_EQ(from_f32(Element::bf16, numbers, 5, stored), 4);
}

float value_of(const RawTensor& tensor, Index element) {
  const Element type = *parse_element(tensor.type);
  float x = 0;
  to_f32(type, tensor.bytes.data() + element * size_bytes(type), 1, &x);
  return x;
}

std::vector<RawTensor> toy_tensors() {
  return {random_tensor("wide", "BF16", {300, 7000}, 1),
          random_tensor("long", "F32", {3000, 130}, 2), random_tensor("half", "F16", {129, 65}, 3),
          random_tensor("norm", "BF16", {777}, 4), random_tensor("cube", "F32", {3, 5, 7}, 5)};
}

Rectangle whole(const LocatedTensor& tensor, float* data) {
  const Rows rows = rows_of(tensor.shape);
  return {&tensor, 0, rows.rows, 0, rows.columns, data, rows.columns, 1};
}

TEST(SafetensorsReader, AnyRectangleComesOutInAnyOrderOfMemory) {
  const ScratchDirectory folder;
  const std::vector<RawTensor> toys = toy_tensors();
  folder.write("model.safetensors", safetensors_of(toys));
  const Directory directory = open_directory(folder.path());
  std::mt19937 random(5);
  const auto below = [&](Index end) {
    return static_cast<Index>(random() % static_cast<unsigned>(end));
  };
  for (int round = 0; round < 20; ++round) {
    std::vector<Rectangle> rectangles;
    std::vector<std::vector<float>> memory;
    for (int i = 0; i < 8; ++i) {
      const RawTensor& toy = toys[static_cast<std::size_t>(below(5))];
      const LocatedTensor* tensor = directory.find(toy.name);
      const Rows all = rows_of(tensor->shape);
      Rectangle r{tensor, below(all.rows), 0, below(all.columns), 0};
      r.rows = 1 + below(all.rows - r.row);
      r.columns = 1 + below(all.columns - r.column);
      memory.emplace_back(static_cast<std::size_t>(r.rows * r.columns), NAN);
      r.data = memory.back().data();
      const bool transposed = below(2) == 1;
      r.row_stride = transposed ? 1 : r.columns;
      r.column_stride = transposed ? r.rows : 1;
      rectangles.push_back(r);
    }
    read_rectangles(directory, rectangles, 1 + round % 3);
    for (const Rectangle& r : rectangles) {
      const auto toy = std::find_if(toys.begin(), toys.end(),
                                    [&](auto& each) { return each.name == r.tensor->name; });
      const Index columns = rows_of(r.tensor->shape).columns;
      for (Index i = 0; i < r.rows; ++i)
        for (Index j = 0; j < r.columns; ++j)
          ASSERT_EQ(r.data[i * r.row_stride + j * r.column_stride],
                    value_of(*toy, (r.row + i) * columns + r.column + j))
              << r.tensor->name << ' ' << i << ' ' << j;
    }
  }
}

TEST(SafetensorsReader, SumsAreThoseOfTheTensorsHoweverTheyAreCut) {
  const ScratchDirectory folder;
  std::vector<RawTensor> toys = toy_tensors();
  folder.write("model.safetensors", safetensors_of(toys));
  const Directory directory = open_directory(folder.path());
  std::vector<float> memory(3'000'000);
  std::vector<Rectangle> at_once, cut;
  for (const LocatedTensor& tensor : directory.tensors) {
    at_once.push_back(whole(tensor, memory.data()));
    const Rows rows = rows_of(tensor.shape);
    const Index row = rows.rows / 3, column = rows.columns / 2;
    for (const auto& [from, to] : {std::pair{Index{0}, row}, {row, rows.rows}}) {
      cut.push_back({&tensor, from, to - from, 0, column, memory.data(), rows.columns});
      cut.push_back(
          {&tensor, from, to - from, column, rows.columns - column, memory.data(), rows.columns});
    }
  }
  // A tensor of one column has an empty left half.
  const std::uint64_t sum = read_rectangles(directory, at_once, 2).sum;
  std::erase_if(cut, [](const Rectangle& r) { return r.columns == 0; });
  EXPECT_EQ(read_rectangles(directory, cut, 1).sum, sum);
  for (Rectangle& r : cut) r.counts = false;
  EXPECT_EQ(read_rectangles(directory, cut, 1).sum, 0u);

  toys[1].bytes[1'000'001] ^= 1;
  folder.write("model.safetensors", safetensors_of(toys));
  EXPECT_NE(read_rectangles(directory, at_once, 2).sum, sum);
  toys[1].bytes[1'000'001] ^= 1;
  std::swap_ranges(toys[1].bytes.begin(), toys[1].bytes.begin() + 520,
                   toys[1].bytes.begin() + 520);  // rows 0 and 1
  folder.write("model.safetensors", safetensors_of(toys));
  EXPECT_NE(read_rectangles(directory, at_once, 2).sum, sum);
  std::swap_ranges(toys[1].bytes.begin(), toys[1].bytes.begin() + 520, toys[1].bytes.begin() + 520);
  std::swap_ranges(toys[0].bytes.begin(), toys[0].bytes.begin() + 1024,
                   toys[0].bytes.begin() + 1024);  // within a row
  folder.write("model.safetensors", safetensors_of(toys));
  EXPECT_NE(read_rectangles(directory, at_once, 2).sum, sum);
}

TEST(SafetensorsReader, EachByteIsReadOnceByRectanglesSideBySide) {
  const ScratchDirectory folder;
  folder.write("model.safetensors",
               safetensors_of({random_tensor("fused", "F32", {1000, 3000}, 1)}));
  const Directory directory = open_directory(folder.path());
  std::vector<float> memory(3'000'000);
  std::vector<Rectangle> parts;
  for (Index part = 0; part < 3; ++part)
    parts.push_back({&directory.tensors[0], 0, 1000, part * 1000, 1000,
                     memory.data() + part * 1'000'000, 1, 1000});
  Index reads = 0;
  const RowsRead read = read_rectangles(directory, parts, 1, [&](Index) { ++reads; });
  EXPECT_EQ(read.report.bytes_read, 12'000'000);
  EXPECT_EQ(read.report.bytes_used, 12'000'000);
  const Index rows_of_a_read = piece_bytes / 12'000;
  EXPECT_EQ(reads, (1000 + rows_of_a_read - 1) / rows_of_a_read);
}

// As a tensor rank reads a matrix whose input it splits.
TEST(SafetensorsReader, ColumnsOfLongRowsAreReadAlone) {
  const ScratchDirectory folder;
  constexpr Index rows = 50, columns = 30000, row_bytes = 2 * columns;
  const RawTensor toy = random_tensor("down", "BF16", {rows, columns}, 1);
  folder.write("model.safetensors", safetensors_of({toy}));
  const Directory directory = open_directory(folder.path());
  std::vector<float> memory(rows * columns);
  const auto read = [&](const std::vector<std::pair<Index, Index>>& parts, bool counts) {
    std::vector<Rectangle> rectangles;
    for (const auto& [from, to] : parts)
      rectangles.push_back({&directory.tensors[0], 0, rows, from, to - from,
                            memory.data() + from * rows, to - from, 1, counts});
    return read_rectangles(directory, rectangles, 2);
  };
  const RowsRead part = read({{10000, 20000}}, false);
  EXPECT_EQ(part.report.bytes_read, rows * 20000);
  EXPECT_EQ(part.report.bytes_used, rows * 20000);
  for (Index i = 0; i < rows; ++i)
    for (const Index j : {0, 1, 5000, 9999})
      ASSERT_EQ(memory[static_cast<std::size_t>(10000 * rows + i * 10000 + j)],
                value_of(toy, i * columns + 10000 + j));
  // What is hashed together ends at the next KiB: of bytes 20000 to 40000 at 40960.
  EXPECT_EQ(read({{10000, 20000}}, true).report.bytes_read, rows * 20960);
  EXPECT_EQ(read({{0, 10000}}, true).report.bytes_read, rows * 20480);
  const std::uint64_t sum = read({{0, columns}}, true).sum;
  EXPECT_EQ(read({{0, 10000}}, true).sum + read({{10000, 20000}}, true).sum +
                read({{20000, columns}}, true).sum,
            sum);
  // Two halves of a rank are read together; so are columns whose rest is too short to pay.
  EXPECT_EQ(read({{0, 15000}, {15000, columns}}, true).report.bytes_read, rows * row_bytes);
  EXPECT_EQ(read({{0, 27000}}, true).report.bytes_read, rows * row_bytes);
}

TEST(SafetensorsReader, RowsLongerThanAPieceAreReadWhole) {
  const ScratchDirectory folder;
  constexpr Index columns = piece_bytes / 2 + 3;  // of BF16: longer than a piece
  const RawTensor toy = random_tensor("wide", "BF16", {2, columns}, 1);
  folder.write("model.safetensors", safetensors_of({toy}));
  const Directory directory = open_directory(folder.path());
  std::vector<float> memory(static_cast<std::size_t>(2 * columns));
  read_rectangles(directory, {whole(directory.tensors[0], memory.data())}, 2);
  for (const Index i : {Index{0}, columns - 1, columns, 2 * columns - 1})
    EXPECT_EQ(memory[static_cast<std::size_t>(i)], value_of(toy, i)) << i;
}

TEST(SafetensorsSample, DiffersWhereValuesDifferUnderTheSameHeaders) {
  const ScratchDirectory folder;
  const auto sample = [&](unsigned seed) {
    folder.write("model.safetensors", safetensors_of({random_tensor("a", "F32", {3}, 1),
                                                      random_tensor("b", "BF16", {1000, 300}, seed),
                                                      random_tensor("c", "F32", {0, 5}, 1)}));
    return to_text(sample_of(open_directory(folder.path())));
  };
  const std::string first = sample(2);
  EXPECT_NE(sample(3), first);
  EXPECT_EQ(sample(2), first);
}

TEST(SafetensorsReader, NamesTheFileThatEndsEarlyAndTheTensorOfAnotherType) {
  const ScratchDirectory folder;
  RawTensor mask{"mask", "U8", {4}, "abcd"};
  const std::string text = safetensors_of({random_tensor("a", "F32", {10, 10}, 1), mask});
  const std::string path = folder.write("model.safetensors", text);
  const Directory directory = open_directory(folder.path());
  std::vector<float> memory(100);
  EXPECT_THAT(message_of([&] {
                read_rectangles(directory, {whole(*directory.find("mask"), memory.data())}, 1);
              }),
              HasSubstr("tensor mask has the type U8; F32, BF16, F16 and F64 are read"));
  Rectangle outside = whole(*directory.find("a"), memory.data());
  ++outside.row;
  EXPECT_THAT(message_of([&] { read_rectangles(directory, {outside}, 1); }),
              HasSubstr("are not inside"));
  std::filesystem::resize_file(path, text.size() - 100);
  EXPECT_THAT(
      message_of(
          folder,
          [&] { read_rectangles(directory, {whole(*directory.find("a"), memory.data())}, 1); }),
      HasSubstr("model.safetensors: ends at byte"));
}

TEST(SafetensorsReader, RefusesNumbersThatAreInfiniteOrNone) {
  for (const std::string type : {"F32", "BF16", "F16"})
    for (const bool nan : {false, true}) {
      const ScratchDirectory folder;
      RawTensor bad = random_tensor("model.norm.weight", type, {3, 50}, 1);
      const std::string bits = type == "F16"    ? "\x00\x7c"s
                               : type == "BF16" ? "\x80\x7f"s
                                                : "\x00\x00\x80\x7f"s;
      bad.bytes.replace(bad.bytes.size() - 2 * bits.size(), bits.size(), bits);
      if (nan) bad.bytes[bad.bytes.size() - bits.size() - 2] |= 1;
      folder.write("model.safetensors", safetensors_of({bad}));
      const Directory directory = open_directory(folder.path());
      std::vector<float> memory(150);
      EXPECT_THAT(message_of([&] {
                    read_rectangles(directory, {whole(directory.tensors.front(), memory.data())},
                                    1);
                  }),
                  HasSubstr(str("tensor model.norm.weight has the value ", nan ? "nan" : "inf")));
    }
}

TEST(SafetensorsReader, NamesANumberThatFp32CannotHold) {
  for (const double value : {1e300, -3.5e38, HUGE_VAL}) {
    const ScratchDirectory folder;
    RawTensor bad = random_tensor("model.norm.weight", "F64", {3, 50}, 1);
    bad.bytes.assign(150 * sizeof value, '\0');
    std::memcpy(&bad.bytes[100 * sizeof value], &value, sizeof value);
    folder.write("model.safetensors", safetensors_of({bad}));
    const Directory directory = open_directory(folder.path());
    std::vector<float> memory(150);
    Rectangle transposed = whole(directory.tensors.front(), memory.data());
    transposed.row_stride = 1;
    transposed.column_stride = 3;
    for (const Rectangle& each : {whole(directory.tensors.front(), memory.data()), transposed})
      EXPECT_EQ(
          message_of([&] { read_rectangles(directory, {each}, 1); }),
          str("tensor model.norm.weight has the value ", value,
              std::isinf(value) ? ": the model is damaged, or was after it was trained"
                                : ", beyond the range of fp32, in which models are kept: at most "
                                  "3.40282347e+38"));
  }
}

/// Tensors to write whose values are those of `toys`.
std::vector<WrittenTensor> written(const std::vector<RawTensor>& toys) {
  std::vector<WrittenTensor> tensors;
  for (const RawTensor& toy : toys) {
    const Shape shape{std::vector<Index>(toy.shape.begin(), toy.shape.end())};
    const Index columns = rows_of(shape).columns;
    tensors.push_back({toy.name, shape, [&toy, columns](Index row, Index rows, float* data) {
                         for (Index i = 0; i < rows * columns; ++i)
                           data[i] = value_of(toy, row * columns + i);
                       }});
  }
  return tensors;
}

std::string bytes_of(const Directory& directory, const std::string& name) {
  const LocatedTensor* tensor = directory.find(name);
  const auto file = bytes_of_file(directory.file_path(*tensor));
  const char* data = reinterpret_cast<const char*>(file.data()) + tensor->offset;
  return {data, static_cast<std::size_t>(tensor->bytes)};
}

TEST(SafetensorsWriter, OneFileOrSeveralComeBackBitForBit) {
  std::vector<RawTensor> toys = toy_tensors();
  std::erase_if(toys, [](const RawTensor& toy) { return toy.type != "BF16"; });
  for (const Index most : {Index{1} << 40, Index{4'000'000}}) {
    const ScratchDirectory folder;
    WriteOptions options{Element::bf16, most};
    Index last = 0;
    options.progress = [&](Index done, Index total) {
      EXPECT_GT(done, last);
      EXPECT_LE(done, total);
      last = done;
    };
    write_model(folder.path(), written(toys), options);
    const Directory directory = open_directory(folder.path());
    EXPECT_EQ(directory.files.size(), most > 5'000'000 ? 1u : 2u);
    EXPECT_EQ(directory.metadata, (KeyValues{{"format", "pt"}}));
    EXPECT_EQ(last, directory.bytes());
    for (const RawTensor& toy : toys) EXPECT_TRUE(bytes_of(directory, toy.name) == toy.bytes);
  }
}

TEST(SafetensorsWriter, TellsOnceOfEachTensorThatHasNumbersThatAreNone) {
  const ScratchDirectory folder;
  const auto of = [](float number) {
    return [number](Index, Index rows, float* data) { std::fill_n(data, rows * 10, number); };
  };
  std::vector<std::string> reported;
  WriteOptions options;
  options.not_finite = [&](const std::string& tensor, float number) {
    reported.push_back(str(tensor, ' ', number));
  };
  write_file(folder / "x",
             {{"a", {10, 10}, of(1)}, {"b", {10, 10}, of(NAN)}, {"c", {10, 10}, of(-INFINITY)}},
             options);
  EXPECT_THAT(reported, testing::ElementsAre("b nan", "c -inf"));
}

TEST(SafetensorsWriter, NamesTheTensorThatATypeCannotHoldAndLeavesNothing) {
  const ScratchDirectory folder;
  const WrittenTensor big{"big", {10, 10}, [](Index row, Index rows, float* data) {
                            for (Index i = 0; i < rows * 10; ++i)
                              data[i] = row * 10 + i == 37 ? -7e4f : 1;
                          }};
  EXPECT_THAT(message_of([&] { write_file(folder / "x", {big}, {Element::f16}); }),
              HasSubstr("tensor big: element 37 is -70000, more than f16 holds"));
  EXPECT_EQ(folder.files(), 0u);
  folder.write("x", "");
  EXPECT_THAT(message_of([&] { write_file(folder / "x", {big}, {}); }),
              HasSubstr("x: exists already"));
  EXPECT_EQ(folder.read("x"), "");
}

}  // namespace
}  // namespace trireme::safetensors
