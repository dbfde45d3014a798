#include "launch/verify/distance.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "trireme/core/error.h"

#include "runtime/store/read/reader.h"

namespace trireme::verify {
namespace {

/// f(element) for each element of a box, in row-major order.
template <class F>
void for_each_element(const Box& box, const Shape& global, F&& f) {
  const Shape strides = global.packed_strides();
  const int dims = global.dims();
  const Index row = dims == 0 ? 1 : box.size[dims - 1];
  for (Index r = 0; row > 0 && r < box.count() / row; ++r) {
    Index rest = r, first = dims == 0 ? 0 : box.begin[dims - 1];
    for (int d = dims - 2; d >= 0; --d) {
      first += (box.begin[d] + rest % box.size[d]) * strides[d];
      rest /= box.size[d];
    }
    for (Index i = first; i < first + row; ++i) f(i);
  }
}

double square(double x) { return x * x; }

/// What is no number is infinitely far, not equal to everything.
double apart(float a, float b) {
  const double difference = std::abs(static_cast<double>(a) - static_cast<double>(b));
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

}  // namespace

double Distance::relative() const {
  if (layout == 0) return 0;
  return norm > 0 ? layout / norm : std::numeric_limits<double>::infinity();
}

Distance distance_of(const TensorSides& sides, const Shape& global,
                     const std::vector<Piece>& pieces) {
  std::vector<Piece> parts = pieces;
  if (parts.empty()) parts.push_back({whole_box(global), -1});
  Distance found;
  double farthest = 0;
  std::vector<double> means;
  for (const Piece& part : parts) {
    double sum = 0;
    for_each_element(part.box, global, [&](Index element) {
      const auto i = static_cast<std::size_t>(element);
      const double difference = apart(sides.truth[i], sides.layout[i]);
      found.norm += square(sides.truth[i]);
      if (!sides.one.empty()) found.one += square(apart(sides.truth[i], sides.one[i]));
      sum += square(difference);
      if (difference <= farthest) return;
      farthest = difference;
      found.element = element;
      found.truth_there = sides.truth[i];
      found.layout_there = sides.layout[i];
    });
    found.layout += sum;
    means.push_back(part.box.count() > 0 ? sum / static_cast<double>(part.box.count()) : 0);
  }
  const auto most = std::max_element(means.begin(), means.end());
  found.piece = static_cast<std::size_t>(most - means.begin());
  constexpr double much = 1e-6;  // of squares
  found.pieces_apart = static_cast<std::size_t>(std::count_if(
      means.begin(), means.end(), [&](double mean) { return mean > 0 && !(mean < much * *most); }));
  found.norm = std::sqrt(found.norm);
  found.one = std::sqrt(found.one);
  found.layout = std::sqrt(found.layout);
  return found;
}

std::string index_text(Index element, const Shape& global) {
  std::string text;
  for (int d = global.dims() - 1; d >= 0; --d) {
    text = str(element % global[d], text.empty() ? "" : ", ", text);
    element /= global[d];
  }
  return "[" + text + "]";
}

std::string box_text(const Box& box) {
  std::string text;
  for (int d = 0; d < box.size.dims(); ++d)
    text += str(d > 0 ? ", " : "", box.begin[d], ':', box.begin[d] + box.size[d]);
  return "[" + text + "]";
}

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
