// checkpoint.h5 as h5py sees it: the global logical tensors, with names, shapes and bits that do
// not depend on the layout; and a missing shard is visible there.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

#include "runtime/store/manifest.h"
#include "runtime/store/steps.h"
#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"

namespace trireme::test {
namespace {

const Layout eight{"2 x 2 x 2, ZeRO", 8,
                   "--tp 2 --pp 2 --micro-batch-size 2 --use-distributed-optimizer"};
const Layout one{"one rank", 1, "--micro-batch-size 8"};

DType dtype_of(const std::string& h5py_name) {
  if (h5py_name == "<f4") return DType::f32;
  if (h5py_name == "<i8") return DType::i64;
  throw Error("h5py shows a dtype " + h5py_name);
}

class H5py : public testing::Test {
 protected:
  H5py() : jobs_(small_gpt) {
    jobs_.succeed(
        jobs_.training(eight, str("--train-iters 3 --save ", jobs_ / "eight", " --dump-tensors ",
                                  jobs_ / "run", " --metrics ", jobs_ / "run.jsonl")));
  }
  std::string step(const std::string& root) const { return (jobs_ / root) + "/" + step_name(3); }

  StoredTensors read(const std::string& step_directory) const {
    const std::string bytes = jobs_ / "bytes";
    std::istringstream lines(
        jobs_.succeed(str(TRIREME_PYTHON " " TRIREME_SOURCE_DIR "/tests/support/h5py_tensors ",
                          step_directory, "/", global_name, " ", bytes)));
    std::ifstream data(bytes, std::ios::binary);
    StoredTensors all;
    std::string name, dtype, dims;
    while (lines >> name >> dtype >> dims) {
      StoredTensor& tensor = all[name];
      tensor.dtype = dtype_of(dtype);
      std::istringstream in(dims);
      for (std::string extent; dims != "-" && std::getline(in, extent, 'x');)
        tensor.global.push_back(std::stoll(extent));
      tensor.bytes.resize(
          static_cast<std::size_t>(tensor.global.count() * size_bytes(tensor.dtype)));
      data.read(reinterpret_cast<char*>(tensor.bytes.data()),
                static_cast<std::streamsize>(tensor.bytes.size()));
      require(data.good(), "h5py gave less than the bytes of ", name);
    }
    return all;
  }

  CheckpointJobs jobs_;
};

TEST_F(H5py, ReadsTheGlobalTensorsOfAnyLayout) {
  jobs_.succeed(jobs_.training(
      one, str("--train-iters 3 --load ", jobs_ / "eight", " --save ", jobs_ / "one")));
  const StoredTensors of_eight = read(step("eight"));
  EXPECT_EQ(first_difference(of_eight, read(step("one"))), "");
  EXPECT_EQ(first_difference(of_eight, read_checkpoint(step("eight"))), "");
  EXPECT_EQ(parameters_of(of_eight).tensors, read_training_run(jobs_ / "run").parameters.tensors);
}

/// The Python of a page, block after block, for the step of another directory.
std::string python_of(const std::string& page, const std::string& step_directory) {
  std::istringstream lines(read_text(TRIREME_SOURCE_DIR "/" + page));
  std::string code;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = line == "```python";
    } else if (inside) {
      code +=
          std::regex_replace(line, std::regex("[A-Za-z./]+/step-[0-9]{6}"), step_directory) + "\n";
    }
  }
  return code;
}

TEST_F(H5py, RunsTheLinesOfTheDocumentation) {
  const std::string weight = "'parameters/embedding.weight'";
  std::ofstream(jobs_ / "page.py")
      << python_of("docs/reference/checkpoint_format.md", step("eight"))
      << "same = h5py.File(step + '/checkpoint.h5')[" << weight << "][:] == read(" << weight
      << ")\nassert same.all()\n";
  jobs_.succeed(TRIREME_PYTHON " " + jobs_ / "page.py");
}

/// True where nothing but the fill value is in `tensor` at `element`.
bool is_fill(const StoredTensor& tensor, Index element) {
  const std::byte* at = tensor.bytes.data() + element * size_bytes(tensor.dtype);
  if (tensor.dtype == DType::i64) {
    Index value;
    std::memcpy(&value, at, sizeof value);
    return value == std::numeric_limits<Index>::min();
  }
  float value;
  std::memcpy(&value, at, sizeof value);
  return std::isnan(value);
}

/// Elements of `box` in the row-major order of `global`.
std::vector<Index> elements_of(const Box& box, const Shape& global) {
  const Shape strides = global.packed_strides();
  std::vector<Index> all;
  for (Index i = 0; i < box.count(); ++i) {
    Index rest = i, element = 0;
    for (int d = global.dims() - 1; d >= 0; --d) {
      element += (box.begin[d] + rest % box.size[d]) * strides[d];
      rest /= box.size[d];
    }
    all.push_back(element);
  }
  return all;
}

TEST_F(H5py, ShowsTheFillValueWhereAShardIsMissingAndNowhereElse) {
  const Manifest manifest = read_manifest(step("eight"));
  for (const int rank : {0, 5}) {
    const std::string copy = jobs_ / str("without-", rank);
    std::filesystem::copy(step("eight"), copy, std::filesystem::copy_options::recursive);
    std::filesystem::remove(copy + "/" + shard_name(rank));
    const StoredTensors shown = read(copy);
    Index missing = 0;
    for (const Manifest::Tensor& tensor : manifest.tensors)
      for (const Manifest::Stored& piece : tensor.pieces) {
        const bool is_there = piece.file != rank;
        const std::vector<Index> elements = elements_of(piece.box, tensor.global);
        const StoredTensor& stored = shown.at(tensor.name);
        EXPECT_EQ(std::count_if(elements.begin(), elements.end(),
                                [&](Index i) { return is_fill(stored, i); }),
                  is_there ? 0 : piece.box.count())
            << tensor.name << " of "
            << manifest.files.at(static_cast<std::size_t>(piece.file)).name;
        missing += is_there ? 0 : piece.box.count();
      }
    EXPECT_GT(missing, 1000);
  }
}

}  // namespace
}  // namespace trireme::test
