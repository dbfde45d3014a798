#include "launch/verify/tensors.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "trireme/core/error.h"

#include "runtime/store/read/reader.h"

namespace trireme::verify {
namespace {

constexpr int reader_threads = 2;
const std::string parameters_prefix = "parameters/";

/// "3x4", or "-" for a scalar.
Shape shape_in(const std::string& dims) {
  Shape shape;
  std::istringstream in(dims);
  for (std::string extent; dims != "-" && std::getline(in, extent, 'x');)
    shape.push_back(std::stoll(extent));
  return shape;
}

/// "shard-00003.h5": 3; -1: another name.
int rank_of_shard(const std::string& file) {
  const std::string prefix = "shard-";
  int rank = -1;
  if (!file.starts_with(prefix)) return rank;
  std::from_chars(file.data() + prefix.size(), file.data() + file.size(), rank);
  return rank;
}

double number(const Json& line, const char* key) {
  const Json* found = line.find(key);
  if (found != nullptr) {
    if (const auto* real = std::get_if<double>(&found->value)) return *real;
    if (const auto* whole = std::get_if<Index>(&found->value)) return static_cast<double>(*whole);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

DumpedTensors::DumpedTensors(const std::string& prefix) : path_(prefix + ".f32") {
  std::ifstream index(prefix + ".index");
  require(index.good(), prefix, ".index is missing: the program has not trained a step");
  std::string name, dims;
  for (Index offset = 0; index >> name >> dims >> offset;)
    all_.push_back({name, shape_in(dims), offset});
}

const DumpedTensors::Tensor* DumpedTensors::find(const std::string& name) const {
  for (const Tensor& tensor : all_)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

std::vector<float> DumpedTensors::read(const Tensor& tensor) const {
  std::vector<float> values(static_cast<std::size_t>(tensor.global.count()));
  std::ifstream in(path_, std::ios::binary);
  in.seekg(tensor.offset_bytes);
  in.read(reinterpret_cast<char*>(values.data()),
          static_cast<std::streamsize>(values.size() * sizeof(float)));
  require(in.good(), path_, " ends inside ", tensor.name);
  return values;
}

SavedParameters::SavedParameters(const std::string& step_directory)
    : step_(open_step(step_directory)) {}

std::vector<float> SavedParameters::read(const std::string& name, const Shape& global) const {
  std::vector<float> values(static_cast<std::size_t>(global.count()));
  read_boxes(step_.directory, step_.manifest,
             {{parameters_prefix + name, DType::f32, global, whole_box(global), values.data()}},
             reader_threads);
  return values;
}

std::vector<Piece> SavedParameters::pieces(const std::string& name) const {
  std::vector<Piece> pieces;
  const Manifest& manifest = step_.manifest;
  if (const Manifest::Tensor* tensor = manifest.find(parameters_prefix + name))
    for (const Manifest::Stored& stored : tensor->pieces)
      pieces.push_back(
          {stored.box, rank_of_shard(manifest.files[static_cast<std::size_t>(stored.file)].name)});
  return pieces;
}

Box whole_box(const Shape& global) {
  Box box{global, global};
  for (int d = 0; d < global.dims(); ++d) box.begin[d] = 0;
  return box;
}

std::vector<StepLine> read_steps(const std::string& path) {
  std::ifstream in(path);
  require(in.good(), path, " cannot be read: the program writes no --metrics");
  std::vector<StepLine> lines;
  for (std::string text; std::getline(in, text);) {
    const Json line = parse_json(text);
    if (line.find("loss") != nullptr)
      lines.push_back({number(line, "loss"), number(line, "grad_norm")});
  }
  return lines;
}

}  // namespace trireme::verify
