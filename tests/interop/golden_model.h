// The directory of Hugging Face with the weights of a golden case, for what begins with one.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/interop/golden_cases.h"
#include "tests/interop/toy_model.h"

namespace trireme::test {

class GoldenModel {
 public:
  /// `file`: of golden_cases(). Beside a random case lies its directory.
  explicit GoldenModel(const std::string& file) : golden_(file) {
    std::vector<std::string> problems;
    config_ = interop::parse_hf_config(golden_.config(), problems);
    const std::filesystem::path written = std::filesystem::path(file).replace_extension();
    path_ = std::filesystem::exists(written) ? written.string() + "/float32" : write_from_formula();
  }

  const GoldenCase& golden() const { return golden_; }
  const interop::HfConfig& config() const { return config_; }
  const std::string& path() const { return path_; }

 private:
  /// Returns: its directory.
  std::string write_from_formula() {
    std::vector<RawTensor> tensors = toy_model(golden_.config(), "F32");
    for (const interop::HfView& view : interop::hf_views(config_.model_type, config_.model)) {
      std::string& bytes = tensor_called(tensors, view.hf).bytes;
      const Index columns = view.shape.dims() == 2 ? view.shape[1] : 1;
      for (Index i = 0; i < view.shape.count(); ++i) {
        const Index row = view.first_row + i / columns, column = i % columns;
        const Index to = view.transposed ? column * view.hf_shape[1] + row : row * columns + column;
        const float x = golden_weight(view.logical, view.shape.dims(), i);
        std::memcpy(bytes.data() + to * static_cast<Index>(sizeof x), &x, sizeof x);
      }
    }
    write_model(folder_, golden_.config(), tensors, 2);
    return folder_.path();
  }

  const GoldenCase golden_;
  interop::HfConfig config_;
  ScratchDirectory folder_;
  std::string path_;
};

}  // namespace trireme::test
