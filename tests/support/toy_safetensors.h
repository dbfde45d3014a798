// Safetensors files made by hand, byte by byte, apart from the writer of the library.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trireme::test {

struct RawTensor {
  std::string name, type;  // "F32", "BF16", "F16", ...
  std::vector<long> shape;
  std::string bytes;

  long count() const {
    long all = 1;
    for (const long extent : shape) all *= extent;
    return all;
  }
};

/// 8 bytes of length, the JSON, the data.
inline std::string safetensors_of(const std::string& json, const std::string& data) {
  const std::uint64_t length = json.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + json + data;
}

inline std::string safetensors_of(const std::vector<RawTensor>& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})", data;
  for (const RawTensor& tensor : tensors) {
    json += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        tensor.name, tensor.type, fmt::join(tensor.shape, ","), data.size(),
                        data.size() + tensor.bytes.size());
    data += tensor.bytes;
  }
  return safetensors_of(json + "}", data);
}

/// The upper halves of floats, or floats, near `mean` and different from each other.
inline RawTensor random_tensor(const std::string& name, const std::string& type,
                               const std::vector<long>& shape, unsigned seed, float mean = 0) {
  RawTensor tensor{name, type, shape, ""};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, 0.02f);
  for (long i = 0; i < tensor.count(); ++i) {
    const float value = normal(random);
    const auto* bytes = reinterpret_cast<const char*>(&value);
    tensor.bytes.append(type == "F32" ? bytes : bytes + 2, type == "F32" ? 4u : 2u);
  }
  return tensor;
}

/// {"weight_map":{...}}
inline std::string index_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string map;
  for (const auto& [tensor, file] : files)
    map += fmt::format(R"({}"{}":"{}")", map.empty() ? "" : ",", tensor, file);
  return R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}";
}

}  // namespace trireme::test
