// Headers of safetensors files, and directories of them: what is right is read, whatever else is
// refused with one line.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/core/text/one_line.h"
#include "runtime/store/safetensors/directory.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/test_name.h"
#include "tests/support/toy_safetensors.h"

namespace trireme::safetensors {
namespace {

using test::index_of;
using test::random_tensor;
using test::safetensors_of;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SafetensorsHeader, SaysWhereTensorsLie) {
  const Header header = parse_header(
      R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("none":{"dtype":"I64","shape":[0,5],"data_offsets":[16,16]}}   )",
      16);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].shape.dims(), 0);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].type, "BF16");
  EXPECT_EQ(header.tensors[1].shape, Shape({2, 3}));
  EXPECT_EQ(header.tensors[1].begin, 4);
  EXPECT_EQ(header.tensors[1].end, 16);
  EXPECT_EQ(header.tensors[2].name, "none");
  EXPECT_EQ(header.metadata, (KeyValues{{"format", "pt"}}));
}

TEST(SafetensorsHeader, ComesBackFromItsText) {
  const Header header{{{"x", "F16", {3}, 0, 6}, {"y \"quoted\"", "F32", {1, 2}, 6, 14}},
                      {{"format", "pt"}}};
  const std::string text = header_text(header);
  EXPECT_EQ(text.size() % 8, 0u);
  const Header again = parse_header(std::string_view(text).substr(8), 14);
  ASSERT_EQ(again.tensors.size(), 2u);
  EXPECT_EQ(again.tensors[1].name, "y \"quoted\"");
  EXPECT_EQ(again.metadata, header.metadata);
}

struct Broken {
  std::string json;
  const char* says;
};
void PrintTo(const Broken& broken, std::ostream* out) { *out << test::in_test_name(broken.says); }

class BrokenHeaders : public ::testing::TestWithParam<Broken> {};

// 8 bytes of data follow each.
TEST_P(BrokenHeaders, AreRefusedWithOneLine) {
  const ScratchDirectory folder;
  const std::string path =
      folder.write("model.safetensors", safetensors_of(GetParam().json, std::string(8, 'x')));
  const std::string message = message_of(folder, [&] { read_header(path); });
  EXPECT_THAT(message, HasSubstr(GetParam().says));
  EXPECT_THAT(message, ::testing::StartsWith("model.safetensors: "));
  EXPECT_EQ(message, one_line(message, 2000));
}

#define TENSOR(shape, offsets) \
  R"({"a":{"dtype":"F32","shape":)" shape R"(,"data_offsets":)" offsets "}}"

INSTANTIATE_TEST_SUITE_P(
    All, BrokenHeaders,
    ::testing::Values(
        Broken{"", "the header should begin with {"},
        Broken{" {}", "the header should begin with {"},
        Broken{"[]", "the header should begin with {"}, Broken{"{", "this is not JSON at byte"},
        Broken{"{}x", "this is not JSON at byte"},
        Broken{"{}", "the tensors end at byte 0 of the data, but the file has 8: bytes of no"},
        Broken{R"({"a":1})", "tensor a should be an object with dtype, shape and data_offsets"},
        Broken{R"({"a":{}})", "tensor a has no dtype"},
        Broken{R"({"a":{"dtype":"F32"}})", "tensor a has no shape"},
        Broken{R"({"a":{"dtype":"F32","shape":[2]}})", "tensor a has no data_offsets"},
        Broken{R"({"a":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})",
               "tensor a: dtype should be a string"},
        Broken{R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})",
               "tensor a has the type F4, which this version of trireme does not know"},
        Broken{TENSOR("2", "[0,8]"), "tensor a: shape should be an array"},
        Broken{TENSOR("[\"2\"]", "[0,8]"), "tensor a: shape holds something else than whole"},
        Broken{TENSOR("[-2]", "[0,8]"), "tensor a: shape holds something else than whole"},
        Broken{TENSOR("[2.0]", "[0,8]"), "tensor a: shape holds something else than whole"},
        Broken{TENSOR("[1,1,1,1,1,1,2]", "[0,8]"), "tensor a has 7 dims, more than 6"},
        Broken{TENSOR("[1099511627776,1099511627776]", "[0,8]"),
               "tensor a: its shape (1099511627776, 1099511627776) is too large"},
        Broken{TENSOR("[1099511627776,1099511627776,0,5]", "[0,0]"),
               "tensor a: its shape (1099511627776, 1099511627776, 0, 5) is too large"},
        Broken{TENSOR("[9223372036854775808]", "[0,8]"), "too large"},
        Broken{TENSOR("[2]", "8"), "tensor a: data_offsets should be an array"},
        Broken{TENSOR("[2]", "[0,4,8]"), "tensor a: data_offsets has 3 elements, should have 2"},
        Broken{TENSOR("[2]", "[8,0]"), "data_offsets 8 to 0 do not hold the 8 bytes of F32 (2)"},
        Broken{TENSOR("[2]", "[0,4]"), "data_offsets 0 to 4 do not hold the 8 bytes of F32 (2)"},
        Broken{TENSOR("[2]", "[0,null]"), "data_offsets holds something else than whole numbers"},
        Broken{TENSOR("[1]", "[4,8]"),
               "tensor a begins at byte 4 of the data, but the tensor before it ends at 0"},
        Broken{TENSOR("[3]", "[0,12]"),
               "end at byte 12 of the data, but the file has 8: it is cut"},
        Broken{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
               "tensor b begins at byte 4 of the data, inside of the tensor before it"},
        Broken{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
               R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
               "two members are called a"},
        Broken{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"strides":[1]}})",
               "tensor a has a member strides, which the format does not know"},
        Broken{R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "a tensor has no name"},
        Broken{R"({"a\nb\u001b[2J":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
               R"(the name of a tensor has control characters: "a\nb\u001b[2J")"},
        Broken{"{\"a\x7f\":1}", R"(the name of a tensor has control characters: "a\x7f")"},
        Broken{"{\"" + std::string(1025, 'a') +
                   R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
               "a tensor has a name of 1025 bytes, more than 1024"},
        Broken{R"({"a\nb":1})", R"(the name of a tensor has control characters: "a\nb")"},
        Broken{R"({"a":{"dtype":"F\n4","shape":[2],"data_offsets":[0,8]}})",
               R"(tensor a has the type F\x0a4, which)"},
        Broken{R"({"a":{"dtype":")" + std::string(3000, 'F') +
                   R"(","shape":[2],"data_offsets":[0,8]}})",
               "FFF... (3000 bytes), which this version"},
        Broken{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"\u001b[2J":1}})",
               R"(tensor a has a member \x1b[2J, which)"},
        Broken{R"({"a\nb":1,"a\nb":2})", R"(two members are called a\x0ab)"},
        Broken{R"({"__metadata__":{"a\nb":1}})", R"(__metadata__.a\x0ab should be a string)"},
        Broken{R"({"__metadata__":1})", "__metadata__ should be an object"},
        Broken{R"({"__metadata__":{"format":1}})", "__metadata__.format should be a string"},
        Broken{R"({"a":{"dtype":{"a":{"b":{}}}}})", "more than 4 deep"}));

#undef TENSOR

TEST(SafetensorsHeader, OfAFileCutOffAnywhereIsRefused) {
  const ScratchDirectory folder;
  const std::string whole =
      safetensors_of({random_tensor("a", "BF16", {2, 3}, 1), random_tensor("b", "F32", {5}, 2)});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::string path = folder.write("cut", whole.substr(0, bytes));
    EXPECT_THAT(message_of([&] { read_header(path); }), HasSubstr("cut: ")) << bytes;
  }
  const std::string path = folder.write("cut", whole);
  EXPECT_EQ(read_header(path).header.tensors.size(), 2u);
}

TEST(SafetensorsHeader, OfUnbelievableLengthIsNotRead) {
  const ScratchDirectory folder;
  const std::string path =
      folder.write("huge", std::string("\xff\xff\xff\xff\x00\x00\x00\x00{", 9));
  EXPECT_THAT(message_of([&] { read_header(path); }),
              HasSubstr("says that its header has 4294967295 bytes, more than 100000000"));
  const std::string pointer =
      folder.write("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
  EXPECT_THAT(message_of([&] { read_header(pointer); }), HasSubstr("is a pointer of Git LFS"));
}

TEST(SafetensorsDirectory, HasTheTensorsOfOneFileOrOfSeveral) {
  const ScratchDirectory one, two;
  const auto a = random_tensor("a", "BF16", {2, 3}, 1), b = random_tensor("b", "F32", {5}, 2);
  one.write("model.safetensors", safetensors_of({b, a}));
  two.write("x.safetensors", safetensors_of({b}));
  two.write("y.safetensors", safetensors_of({a}));
  two.write("model.safetensors.index.json",
            index_of({{"a", "y.safetensors"}, {"b", "x.safetensors"}}));
  for (const ScratchDirectory* folder : {&one, &two}) {
    const Directory directory = open_directory(folder->path());
    ASSERT_EQ(directory.tensors.size(), 2u);
    EXPECT_EQ(directory.bytes(), 12 + 20);
    const LocatedTensor* found = directory.find("a");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(bytes_of_file(directory.file_path(*found)).size() >=
                  static_cast<std::size_t>(found->offset + found->bytes),
              true);
    EXPECT_EQ(directory.find("c"), nullptr);
  }
}

TEST(SafetensorsDirectory, RefusesAnIndexThatDoesNotFitItsFiles) {
  const ScratchDirectory folder;
  const auto a = random_tensor("a", "BF16", {2, 3}, 1), b = random_tensor("b", "F32", {5}, 2);
  folder.write("x.safetensors", safetensors_of({a}));
  folder.write("y.safetensors", safetensors_of({b}));
  folder.write("both.safetensors", safetensors_of({a, b}));
  const auto says = [&](const std::string& index) {
    folder.write("model.safetensors.index.json", index);
    return message_of(folder, [&] { open_directory(folder.path()); });
  };
  const std::string x = "x.safetensors", y = "y.safetensors";
  EXPECT_EQ(says(index_of({{"a", x}, {"b", y}})), "");
  EXPECT_THAT(says(index_of({{"a", x}, {"b", "z"}, {"c", "w"}})),
              HasSubstr("names files that are missing: w, z"));
  EXPECT_EQ(says(index_of({{"a", x}, {"b", x}})), "");  // a model that needs b says so
  EXPECT_THAT(open_directory(folder.path()).absent, testing::ElementsAre("b"));
  EXPECT_THAT(says(index_of({{"a", y}, {"b", x}})),
              HasSubstr("tensor a is said to be in y.safetensors but is in x.safetensors"));
  EXPECT_THAT(says(index_of({{"a", "both.safetensors"}})),
              HasSubstr("has a tensor b, which model.safetensors.index.json does not name"));
  EXPECT_THAT(says(index_of({{"a", x}, {"b", "both.safetensors"}})),
              HasSubstr("tensor a is in two files"));
  for (const char* name : {"../x.safetensors", "a/b", "..", "", "a\\nb", "a\\u0000b"})
    EXPECT_THAT(says(index_of({{"a", name}})), HasSubstr("which is no name of a file"));
  EXPECT_THAT(says(index_of({{"a\\nb", x}})), HasSubstr("has control characters"));
  EXPECT_THAT(says(index_of({{"a", std::string(300, 'x')}})), HasSubstr("xxx... (300 bytes)\", w"));
  EXPECT_THAT(says("{}"), HasSubstr("model.safetensors.index.json: has no weight_map"));
  EXPECT_THAT(says(R"({"weight_map":[]})"), HasSubstr("weight_map should be an object"));
  EXPECT_THAT(says(R"({"weight_map":{"a":1}})"), HasSubstr("weight_map.a should be a string"));
  EXPECT_THAT(says("x"), HasSubstr("this is not JSON"));
}

TEST(SafetensorsDirectory, NamesEachBrokenFileAndThoseThatAreMissing) {
  const ScratchDirectory folder;
  std::vector<std::pair<std::string, std::string>> index;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) index.emplace_back(name, name);
  folder.write("model.safetensors.index.json", index_of(index));
  for (const char* name : {"b", "c", "d", "e", "f", "g"}) folder.write(name, "cut");
  folder.write("h", safetensors_of({random_tensor("h", "F32", {5}, 2)}));
  const std::string message = message_of([&] { open_directory(folder.path()); });
  EXPECT_THAT(message, HasSubstr("names files that are missing: a\n"));
  for (const char* name : {"b", "c", "d", "e", "f"})
    EXPECT_THAT(message, HasSubstr(folder / name + ": has 3 bytes; a safetensors file begins"));
  EXPECT_THAT(message, ::testing::EndsWith(": and 1 more broken file"));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 6);
}

TEST(SafetensorsDirectory, SaysWhatElseIsThere) {
  const ScratchDirectory folder;
  const auto says = [&](const std::string& path) {
    return message_of([&] { open_directory(path); });
  };
  EXPECT_THAT(says(folder.path()), HasSubstr("has neither model.safetensors nor "));
  EXPECT_THAT(says(folder / "none"), HasSubstr("there is no such directory"));
  EXPECT_THAT(says(folder.write("x", "")),
              HasSubstr("this is a file; give the directory around it"));
  folder.write("pytorch_model.bin", "");
  EXPECT_THAT(says(folder.path()), HasSubstr("pytorch_model.bin, which is pickled and not read"));
}

}  // namespace
}  // namespace trireme::safetensors
