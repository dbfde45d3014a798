#include "tests/support/checkpoint_state.h"

#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "trireme/core/error.h"

#include "runtime/store/read/reader.h"
#include "runtime/store/steps.h"

namespace trireme::test {
namespace {

Box whole(const Shape& global) {
  Box box{global, global};
  for (int d = 0; d < global.dims(); ++d) box.begin[d] = 0;
  return box;
}

std::string difference_of(const StoredTensor& a, const StoredTensor& b) {
  if (a.dtype != b.dtype || !(a.global == b.global))
    return str(a.dtype, " ", a.global, " against ", b.dtype, " ", b.global);
  if (a.bytes == b.bytes) return "";
  const Index size = size_bytes(a.dtype), elements = static_cast<Index>(a.bytes.size()) / size;
  Index differing = 0, first = -1;
  for (Index i = 0; i < elements; ++i) {
    if (std::memcmp(a.bytes.data() + i * size, b.bytes.data() + i * size,
                    static_cast<std::size_t>(size)) == 0)
      continue;
    if (differing++ == 0) first = i;
  }
  return str(differing, " of ", elements, " elements differ, the first is ", first);
}

}  // namespace

StoredTensors read_checkpoint(const std::string& step_directory) {
  const Manifest manifest = read_manifest(step_directory);
  StoredTensors all;
  std::vector<Wanted> wanted;
  for (const Manifest::Tensor& tensor : manifest.tensors) {
    StoredTensor& stored = all[tensor.name];
    stored = {tensor.dtype, tensor.global, {}};
    stored.bytes.resize(static_cast<std::size_t>(tensor.global.count() * size_bytes(tensor.dtype)));
    wanted.push_back(
        {tensor.name, tensor.dtype, tensor.global, whole(tensor.global), stored.bytes.data()});
  }
  read_boxes(step_directory, manifest, wanted, 1);
  return all;
}

std::string first_difference(const StoredTensors& a, const StoredTensors& b) {
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    if (found == b.end()) return name + " is on one side only";
    if (const std::string difference = difference_of(tensor, found->second); !difference.empty())
      return name + ": " + difference;
  }
  for (const auto& [name, tensor] : b)
    if (!a.contains(name)) return name + " is on one side only";
  return "";
}

LogicalTensors parameters_of(const StoredTensors& tensors) {
  const std::string group = "parameters/";
  LogicalTensors parameters;
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(group)) continue;
    require(tensor.dtype == DType::f32, name, " is ", tensor.dtype);
    std::vector<float>& values = parameters.tensors[name.substr(group.size())];
    values.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return parameters;
}

std::vector<Index> committed_steps(const std::string& root) {
  std::vector<Index> steps;
  for (const CommittedStep& step : list_steps(root)) steps.push_back(step.step);
  return steps;
}

std::map<Index, MetricsLine> read_metrics(const std::string& path) {
  std::ifstream in(path);
  require(in.good(), path, " cannot be read");
  std::map<Index, MetricsLine> lines;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    if (!row.contains("loss")) continue;
    const Index step = row.at("step");
    const bool first = lines
                           .emplace(step, MetricsLine{row.at("loss"), row.at("grad_norm"),
                                                      row.at("step_ms"), row.at("loss_bits")})
                           .second;
    require(first, path, " has two lines of step ", step);
  }
  return lines;
}

std::vector<StepLine> steps_of(const std::map<Index, MetricsLine>& lines, Index after) {
  std::vector<StepLine> steps;
  for (const auto& [step, line] : lines)
    if (step > after) steps.push_back({line.loss, line.grad_norm});
  return steps;
}

}  // namespace trireme::test
