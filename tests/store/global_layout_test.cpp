// checkpoint.h5 shows the global tensors out of the shards beside it, and what is missing as such.
#include <cmath>

#include "tests/store/hdf5_files.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using Part = GlobalTensor::Part;

// Tensors of all types, cut in different ways over three shards.
std::vector<GlobalTensor> tensors() {
  std::vector<GlobalTensor> all;
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    all.push_back({str("parameters/", dtype),
                   dtype,
                   Shape{9, 5},
                   {{shard_name(0), {Shape{0, 0}, Shape{4, 5}}},
                    {shard_name(1), {Shape{4, 0}, Shape{5, 2}}},
                    {shard_name(2), {Shape{4, 2}, Shape{5, 3}}}}});
  all.push_back({"state/step", DType::i64, Shape{}, {{shard_name(0), {}}}});
  all.push_back({"only in 1", DType::f32, Shape{3}, {{shard_name(1), {Shape{0}, Shape{3}}}}});
  all.push_back({"100%b",
                 DType::f32,
                 Shape{4},
                 {{shard_name(0), {Shape{0}, Shape{2}}}, {shard_name(1), {Shape{2}, Shape{2}}}}});
  all.push_back({"six",
                 DType::f32,
                 Shape{2, 3, 2, 3, 2, 3},
                 {{shard_name(2), {Shape{0, 0, 0, 0, 0, 0}, Shape{1, 3, 2, 3, 2, 3}}},
                  {shard_name(1), {Shape{1, 0, 0, 0, 0, 0}, Shape{1, 3, 2, 3, 2, 3}}}}});
  return all;
}

Values read(const std::string& file, const GlobalTensor& tensor) {
  return read_with_hdf5(file, tensor.name, tensor.dtype, tensor.global);
}
Values whole(const GlobalTensor& tensor) {
  return values_of(tensor.name, tensor.dtype, tensor.global);
}

void write_shards(const ScratchDirectory& folder, const std::vector<GlobalTensor>& all,
                  int shards) {
  std::vector<std::vector<Piece>> pieces(static_cast<std::size_t>(shards));
  std::vector<std::vector<Values>> values(pieces.size());
  for (const GlobalTensor& tensor : all) {
    const Values global = whole(tensor);
    for (const Part& part : tensor.parts)
      for (std::size_t rank = 0; rank < pieces.size(); ++rank)
        if (part.file == shard_name(static_cast<int>(rank))) {
          pieces[rank].push_back({tensor.name, tensor.dtype, tensor.global, part.box});
          values[rank].push_back(cut(global, tensor.global, part.box, tensor.dtype));
        }
  }
  for (std::size_t rank = 0; rank < pieces.size(); ++rank)
    folder.write(shard_name(static_cast<int>(rank)),
                 compose(lay_out_shard(pieces[rank]), values[rank]));
  folder.write(global_name, compose(lay_out_global(all), {}));
}

TEST(GlobalLayout, ShowsGlobalTensorsToHdf5) {
  const ScratchDirectory folder;
  write_shards(folder, tensors(), 3);
  for (const GlobalTensor& tensor : tensors())
    EXPECT_TRUE(read(folder / global_name, tensor) == whole(tensor)) << tensor.name;
  EXPECT_EQ(structure_problem(folder / global_name, {}), "");
}

TEST(GlobalLayout, ShowsGlobalTensorsToH5py) {
  const std::string python = find_python();
  if (python.empty()) GTEST_SKIP() << "no python3 here has h5py";
  const ScratchDirectory folder;
  write_shards(folder, tensors(), 3);
  std::vector<Expected> datasets;
  for (const GlobalTensor& tensor : tensors())
    datasets.push_back({tensor.name, tensor.dtype, tensor.global, whole(tensor)});
  EXPECT_EQ(h5py_problems(python, folder / global_name, datasets), "");
}

TEST(GlobalLayout, FindsShardsBesideItAfterTheDirectoryMoved) {
  const ScratchDirectory folder;
  std::filesystem::create_directory(folder / "before");
  write_shards(folder, tensors(), 3);
  for (const char* name : {"shard-00000.h5", "shard-00001.h5", "shard-00002.h5", global_name})
    std::filesystem::rename(folder / name, folder / (std::string("before/") + name));
  std::filesystem::rename(folder / "before", folder / "after");
  const GlobalTensor tensor = tensors()[0];
  EXPECT_TRUE(read(folder / (std::string("after/") + global_name), tensor) == whole(tensor));
}

// The value of each type that lay_out_global documents, lowest byte first.
Values missing(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "\xa5\xa5\xa5\x7f";
    case DType::bf16:
      return "\xa5\x7f";
    case DType::f64:
      return "\xa5\xa5\xa5\xa5\xa5\xa5\xf5\x7f";
    case DType::i32:
      return std::string("\0\0\0\x80", 4);
    case DType::i64:
      return std::string("\0\0\0\0\0\0\0\x80", 8);
    case DType::u8:
      return "\xff";
  }
  return "";
}

TEST(GlobalLayout, ShowsAMissingShardAsTheFillValue) {
  const ScratchDirectory folder;
  write_shards(folder, tensors(), 3);
  std::filesystem::remove(folder / shard_name(1));
  for (const GlobalTensor& tensor : tensors()) {
    const auto width = static_cast<std::size_t>(size_bytes(tensor.dtype));
    Values expected = whole(tensor);
    for (const Part& part : tensor.parts) {
      if (part.file != shard_name(1)) continue;
      for (Index i = 0; i < part.box.count(); ++i)
        expected.replace(element_of(tensor.global, part.box, i) * width, width,
                         missing(tensor.dtype));
    }
    EXPECT_TRUE(read(folder / global_name, tensor) == expected) << tensor.name;
  }
}

TEST(GlobalLayout, FillsFloatsWithSignallingNans) {
  const auto value = [](DType dtype, auto number) {
    std::memcpy(&number, missing(dtype).data(), sizeof number);
    return number;
  };
  EXPECT_TRUE(std::isnan(value(DType::f32, 0.0f)));
  EXPECT_TRUE(std::isnan(value(DType::f64, 0.0)));
  // The highest bit of the fraction is zero: signalling.
  EXPECT_EQ(value(DType::f32, std::uint32_t{}) >> 22 & 1u, 0u);
  EXPECT_EQ(value(DType::f64, std::uint64_t{}) >> 51 & 1u, 0u);
  EXPECT_EQ(value(DType::bf16, std::uint16_t{}) >> 7 & 0xff, 0xff);
  EXPECT_EQ(value(DType::bf16, std::uint16_t{}) >> 6 & 1, 0);
}

TEST(GlobalLayout, HoldsThousandsOfPartsOfATensor) {
  constexpr Index parts = 3000;
  GlobalTensor tensor = {"optimizer/first_moment/wte", DType::bf16, Shape{3 * parts, 5}, {}};
  for (Index i = 0; i < parts; ++i)
    tensor.parts.push_back({shard_name(static_cast<int>(i % 2)), {Shape{3 * i, 0}, Shape{3, 5}}});
  const ScratchDirectory folder;
  write_shards(folder, {tensor}, 2);
  EXPECT_TRUE(read(folder / global_name, tensor) == whole(tensor));
}

TEST(GlobalLayout, HasTheSameBytesEachTime) {
  EXPECT_TRUE(compose(lay_out_global(tensors()), {}) == compose(lay_out_global(tensors()), {}));
}

TEST(GlobalLayout, RefusesTensorsThatAreNone) {
  const ScratchDirectory folder;
  const auto refuse = [&](const GlobalTensor& tensor) {
    return message_of(folder, [&] { lay_out_global({tensor}); });
  };
  EXPECT_EQ(refuse({"w", DType::f32, Shape{4}, {}}), "tensor w has no parts to be shown");
  EXPECT_NE(refuse({"w", DType::f32, Shape{4}, {{"s", {Shape{2}, Shape{3}}}}}).find("tensor w"),
            std::string::npos);
  EXPECT_NE(refuse({"", DType::f32, Shape{4}, {{"s", {Shape{2}, Shape{2}}}}}), "");
}

}  // namespace
}  // namespace trireme
