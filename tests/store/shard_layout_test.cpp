// A shard composed from its layout is the file that HDF5 would have written, and HDF5 and h5py read
// every value in it.
#include <chrono>
#include <set>
#include <thread>

#include <sys/resource.h>

#include "runtime/store/hdf5/layout.h"
#include "tests/store/hdf5_files.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

Piece whole(const std::string& tensor, DType dtype, const Shape& shape) {
  Shape begin = shape;
  for (int d = 0; d < shape.dims(); ++d) begin[d] = 0;
  return {tensor, dtype, shape, {begin, shape}};
}

// All types, scalars and six dims, small and large, pieces at odd places.
std::vector<Piece> odd_pieces() {
  return {
      whole("state/step", DType::i64, Shape{}),
      whole("state/flag", DType::u8, Shape{}),
      {"parameters/h.0.attention.query", DType::f32, Shape{70, 33}, {Shape{0, 0}, Shape{35, 33}}},
      {"parameters/h.0.attention.query", DType::f32, Shape{70, 33}, {Shape{35, 7}, Shape{1, 26}}},
      {"parameters/wte", DType::bf16, Shape{512, 31}, {Shape{128, 0}, Shape{200, 31}}},
      whole("parameters/one", DType::bf16, Shape{1}),
      whole("optimizer/first_moment/six", DType::f64, Shape{2, 3, 1, 2, 5, 3}),
      {"six",
       DType::i32,
       Shape{3, 3, 3, 3, 3, 3},
       {Shape{1, 0, 2, 1, 1, 2}, Shape{2, 3, 1, 2, 2, 1}}},
      whole("bytes", DType::u8, Shape{4097}),
      whole("long", DType::i64, Shape{1025}),
      whole("a", DType::f32, Shape{1024}),
      whole("a/b/c/d/e", DType::f32, Shape{3}),
  };
}

std::vector<Expected> expected(const std::vector<Piece>& pieces) {
  std::vector<Expected> all;
  for (const Piece& piece : pieces)
    all.push_back({hdf5::dataset_path(piece.tensor, piece.box.begin), piece.dtype, piece.box.size,
                   values_of(piece), spaced(piece.box.begin), spaced(piece.global)});
  return all;
}

void expect_readable(const ScratchDirectory& folder, const std::vector<Piece>& pieces) {
  const std::string file = folder.write(shard_name(0), compose_shard(pieces));
  EXPECT_EQ(structure_problem(file, lay_out_shard(pieces).pieces), "");
  for (const Expected& e : expected(pieces))
    EXPECT_TRUE(read_with_hdf5(file, e.path, e.dtype, e.shape) == e.values) << e.path;
}

TEST(ShardLayout, IsReadByHdf5ValueForValue) {
  const ScratchDirectory folder;
  expect_readable(folder, odd_pieces());
  const ScratchDirectory other;
  expect_readable(other, {});
}

TEST(ShardLayout, IsReadByH5pyValueForValue) {
  const std::string python = find_python();
  if (python.empty()) GTEST_SKIP() << "no python3 here has h5py";
  const ScratchDirectory folder;
  const std::vector<Piece> pieces = odd_pieces();
  const std::string file = folder.write(shard_name(0), compose_shard(pieces));
  EXPECT_EQ(h5py_problems(python, file, expected(pieces)), "");
}

TEST(ShardLayout, ComposesTheFileThatHdf5Writes) {
  const ScratchDirectory folder;
  const std::vector<Piece> pieces = odd_pieces();
  const std::string file = folder.write("written", compose(lay_out_shard(pieces), {}));
  for (const Expected& e : expected(pieces)) {
    Values values = e.values;
    transfer(file, e.path, e.dtype, Access::write, values);
  }
  EXPECT_TRUE(folder.read("written") == compose_shard(pieces));
}

TEST(ShardLayout, HoldsThousandsOfSmallPieces) {
  std::vector<Piece> pieces;
  for (Index i = 0; i < 3000; ++i)
    pieces.push_back({"optimizer/second_moment/h." + std::to_string(i / 5),
                      DType::bf16,
                      Shape{35},
                      {Shape{7 * (i % 5)}, Shape{1 + i % 7}}});
  const ScratchDirectory folder;
  const std::string file = folder.write(shard_name(1), compose_shard(pieces));
  const FileLayout layout = lay_out_shard(pieces);
  EXPECT_EQ(structure_problem(file, layout.pieces), "");
  for (std::size_t i = 0; i < pieces.size(); i += 97) {
    const Piece& piece = pieces[i];
    EXPECT_EQ(read_with_hdf5(file, hdf5::dataset_path(piece.tensor, piece.box.begin), piece.dtype,
                             piece.box.size),
              values_of(piece));
  }
}

TEST(ShardLayout, PlacesPiecesApartAndLargeOnesOnPages) {
  const FileLayout layout = lay_out_shard(odd_pieces());
  std::set<std::pair<Index, Index>> places;
  for (const Piece& piece : layout.pieces) {
    places.insert({piece.offset, piece.offset + piece.bytes()});
    if (piece.bytes() >= 4096) {
      EXPECT_EQ(piece.offset % 4096, 0) << piece.tensor;
    }
  }
  Index end = 0;
  for (const auto& [begin, behind] : places) {
    EXPECT_GE(begin, end);
    end = behind;
  }
  EXPECT_LE(end, layout.bytes);
  end = 0;
  for (const FileLayout::Run& run : layout.structure) {
    EXPECT_GE(run.offset, end);
    end = run.offset + static_cast<Index>(run.bytes.size());
  }
  EXPECT_LE(end, layout.bytes);
}

TEST(ShardLayout, OfHugePiecesTakesLittleMemory) {
  const Shape huge = {Index{5} << 20, 1024};  // 20 GiB
  const FileLayout layout =
      lay_out_shard({whole("x", DType::f32, huge), whole("y", DType::f32, huge)});
  EXPECT_EQ(std::abs(layout.pieces[1].offset - layout.pieces[0].offset), Index{20} << 30);
  EXPECT_GT(layout.bytes, Index{40} << 30);
  Index structure_bytes = 0;
  for (const auto& run : layout.structure) structure_bytes += static_cast<Index>(run.bytes.size());
  EXPECT_LT(structure_bytes, 32 << 10);
}

TEST(ShardLayout, HasTheSameBytesEachTime) {
  const std::string first = compose_shard(odd_pieces());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // times in HDF5 are in seconds
  EXPECT_TRUE(compose_shard(odd_pieces()) == first);
}

TEST(ShardLayout, KeepsNoFileOpen) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  lay_out_shard(odd_pieces());
  const auto before = open_files();
  lay_out_shard(odd_pieces());
  EXPECT_ANY_THROW(lay_out_shard({whole("x", DType::f32, {2}), whole("x", DType::f32, {2})}));
  EXPECT_EQ(open_files(), before);
}

TEST(ShardLayout, HasNoNameThatAKilledProcessCouldLeave) {
  const hdf5::LayoutFile layout(1 << 20);
  int open_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of this very loop
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.find("trireme-layout-") == std::string::npos) continue;
    ++open_files;
    EXPECT_TRUE(target.ends_with(" (deleted)")) << target;
  }
  EXPECT_EQ(open_files, 2);  // HDF5's and ours
}

TEST(ShardLayout, ReportsWhatHdf5RefusesWithoutPrinting) {
  H5E_auto2_t print = nullptr, print_after = nullptr;
  void* argument = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &print, &argument);
  ASSERT_NE(print, nullptr);
  const ScratchDirectory folder;
  testing::internal::CaptureStderr();
  const std::string message = message_of(folder, [] {
    lay_out_shard({whole("parameters/x", DType::f32, {2}), whole("parameters/x", DType::f32, {3})});
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(message.find("parameters/x/0"), std::string::npos) << message;
  EXPECT_NE(message.find("name already exists"), std::string::npos) << message;
  H5Eget_auto2(H5E_DEFAULT, &print_after, &argument);
  EXPECT_EQ(print_after, print);
}

TEST(ShardLayout, RefusesPiecesThatAreNone) {
  const ScratchDirectory folder;
  const auto refuse = [&](const std::string& tensor, const Shape& global, const Box& box) {
    return message_of(folder, [&] { lay_out_shard({{tensor, DType::f32, global, box}}); });
  };
  EXPECT_EQ(refuse("w", {4}, {{2}, {3}}),
            "tensor w of shape (4) has no box of size (3) at (2); boxes are not empty and lie "
            "inside their tensor");
  EXPECT_NE(refuse("w", {4}, {{2}, {0}}).find("no box of size (0)"), std::string::npos);
  EXPECT_NE(refuse("w", {4}, {{-1}, {2}}), "");
  EXPECT_NE(refuse("w", {4, 1}, {{0}, {2}}), "");
  EXPECT_NE(refuse("w", {4}, {{std::numeric_limits<Index>::max()}, {2}}), "");
  for (const char* wrong : {"", "/w", "w/", "a//w", "./w", "a/."})
    EXPECT_NE(refuse(wrong, {4}, {{0}, {4}}).find("cannot name a tensor"), std::string::npos)
        << wrong;
}

void overwrite_attribute(const std::string& file, const std::string& dataset, const char* name,
                         const Shape& values) {
  using hdf5::check;
  using hdf5::Handle;
  const Handle access = hdf5::make_file_access();
  const Handle opened(check(H5Fopen(file.c_str(), H5F_ACC_RDWR, access.id()), "H5Fopen", file),
                      H5Fclose);
  const Handle set(check(H5Dopen2(opened.id(), dataset.c_str(), H5P_DEFAULT), "H5Dopen2", dataset),
                   H5Dclose);
  const Handle attribute(check(H5Aopen(set.id(), name, H5P_DEFAULT), "H5Aopen", name), H5Aclose);
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, values.begin()), "H5Awrite", name);
}

TEST(StructureProblem, NamesWhatDiffers) {
  const ScratchDirectory folder;
  const std::vector<Piece> pieces = lay_out_shard(odd_pieces()).pieces;
  const std::string file = folder.write("shard", compose_shard(pieces));
  ASSERT_EQ(structure_problem(file, pieces), "");
  const auto problem = [&](auto change) {
    std::vector<Piece> p = pieces;
    change(p);
    return structure_problem(file, p);
  };
  const std::string path = "parameters/wte/128_0";
  EXPECT_EQ(problem([](auto& p) { p[4].dtype = DType::f32; }),
            "dataset " + path + " is not of type f32");
  EXPECT_EQ(problem([](auto& p) { p[4].box.size[0] = 199; }),
            "dataset " + path + " has shape (200, 31) instead of (199, 31)");
  EXPECT_EQ(problem([](auto& p) { p[4].global[0] = 511; }),
            "attribute global of " + path + " is (512, 31) instead of (511, 31)");
  EXPECT_EQ(problem([](auto& p) { p[4].box.begin[0] = 127; }),
            "dataset parameters/wte/127_0 is missing");
  EXPECT_EQ(problem([](auto& p) { p[4].offset += 4096; }),
            str("dataset ", path, " lies at ", pieces[4].offset, " instead of ",
                pieces[4].offset + 4096));
  EXPECT_EQ(problem([](auto& p) { p.pop_back(); }), "dataset a/b/c/d/e/0 is unknown");
  overwrite_attribute(file, path, "begin", {128, 1});
  EXPECT_EQ(structure_problem(file, pieces),
            "attribute begin of " + path + " is (128, 1) instead of (128, 0)");
  EXPECT_NE(structure_problem(folder / "none", pieces).find("none"), std::string::npos);
  folder.write("text", "this is no HDF5 file");
  EXPECT_NE(structure_problem(folder / "text", pieces).find("signature"), std::string::npos);
}

/// While it lives, files may have so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
};

TEST(ShardLayout, AFileThatMayNotBeSoLargeIsRefusedBeforeHdf5MeetsTheLimit) {
  const std::vector<Piece> pieces = {whole("a", DType::f32, Shape{1 << 20})};
  const std::string message = message_of([&] {
    const FileSizeLimit limit(4 << 20);
    lay_out_shard(pieces);
  });
  EXPECT_NE(message.find("and this process may write 4194304 (ulimit -f)"), std::string::npos)
      << message;
  const FileSizeLimit limit(6 << 20);
  EXPECT_GE(lay_out_shard(pieces).bytes, 4 << 20);
}

}  // namespace
}  // namespace trireme
