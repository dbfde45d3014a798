// Writing safetensors files, one or several with their index, a piece of a tensor at a time. What
// is cut off leaves no file, or no directory, of the final name.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/core/shape.h"

#include "runtime/store/safetensors/element.h"

namespace trireme::safetensors {

/// A tensor to write. `read` fills `data` with rows [row, row + rows) of rows_of(shape), packed.
struct WrittenTensor {
  std::string name;
  Shape shape;
  std::function<void(Index row, Index rows, float* data)> read;
};

struct WriteOptions {
  Element element = Element::f32;
  Index max_file_bytes = Index{5'000'000'000};  // data in a file; a larger tensor is alone
  std::function<void(Index done, Index total)> progress = {};  // bytes
  /// A tensor has a number that is infinite or none; it is written as it is.
  std::function<void(const std::string& tensor, float number)> not_finite = {};
};

/// Writes `path`, which must not exist, by way of a name of its own (Unfinished). Tensors lie in
/// the order of their names. Throws: Error that names the file, or the tensor and the element that
/// `element` cannot hold; nothing is then left.
void write_file(const std::string& path, const std::vector<WrittenTensor>& tensors,
                const WriteOptions& options);

/// Writes model.safetensors into the directory `path`, or, when that would be larger than
/// max_file_bytes, model-00001-of-0000N.safetensors and the index. The caller makes the directory,
/// and gives it its name afterwards. Throws: as write_file; the directory may then hold any part.
void write_model(const std::string& path, const std::vector<WrittenTensor>& tensors,
                 const WriteOptions& options);

/// Host memory for a piece of a tensor and its conversion.
inline constexpr Index written_piece_bytes = Index{32} << 20;

}  // namespace trireme::safetensors
