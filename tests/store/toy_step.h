// ToyStep: a committed step made by hand: random tensors, cut into random boxes that lie in random
// files at random places, between random bytes; and the plain arrays that reading must give back.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/store/manifest.h"
#include "tests/store/toy_image.h"
#include "tests/support/scratch_directory.h"

namespace trireme {

class ToyStep {
 public:
  ToyStep(const std::string& directory, unsigned seed) : random_(seed) {
    files_.resize(3);
    for (const Shape& shape : {Shape{}, Shape{300000}, Shape{3, 5, 2, 7, 4, 6}, Shape{300, 700},
                               Shape{2, 300000}, Shape{1, 1}, Shape{16, 33, 129}})
      for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) add_tensor(shape, dtype);
    std::sort(manifest.tensors.begin(), manifest.tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (std::size_t i = 0; i < files_.size(); ++i) add_file(directory, static_cast<int>(i));
    write_bytes(directory + "/" + manifest_name, {});
  }

  Index below(Index n) { return static_cast<Index>(random_() % static_cast<std::uint64_t>(n)); }
  Box random_box(const Shape& shape) {
    Box box{shape, shape};
    for (int d = 0; d < shape.dims(); ++d) {
      box.begin[d] = below(shape[d]);
      box.size[d] = 1 + below(shape[d] - box.begin[d]);
    }
    return box;
  }
  /// The packed bytes of a box of the tensor, from its plain array.
  std::vector<std::byte> expected(const Manifest::Tensor& tensor, const Box& box) const {
    return cut(arrays_.at(static_cast<std::size_t>(std::stoi(tensor.name.substr(1)))),
               tensor.global, box, size_bytes(tensor.dtype));
  }

  Manifest manifest;

 private:
  static std::vector<std::byte> cut(const std::vector<std::byte>& array, const Shape& shape,
                                    const Box& box, Index item) {
    const Shape strides = shape.packed_strides();
    std::vector<std::byte> out;
    out.reserve(static_cast<std::size_t>(box.count() * item));
    for (Index i = 0; i < box.count(); ++i) {
      Index rest = i, at = 0;
      for (int d = shape.dims() - 1; d >= 0; --d) {
        at += (box.begin[d] + rest % box.size[d]) * strides[d];
        rest /= box.size[d];
      }
      out.insert(out.end(), array.begin() + at * item, array.begin() + (at + 1) * item);
    }
    return out;
  }

  void add_tensor(const Shape& shape, DType dtype) {
    const std::size_t index = arrays_.size();
    arrays_.push_back(random_bytes(shape.count() * size_bytes(dtype), random_));
    manifest.tensors.push_back({"t" + std::to_string(index), dtype, shape, {}});
    Box whole{shape, shape};
    for (int d = 0; d < shape.dims(); ++d) whole.begin[d] = 0;
    add_pieces(manifest.tensors.back(), whole, 4);
  }

  // Cuts at a random place of a random dim, again and again.
  void add_pieces(Manifest::Tensor& tensor, const Box& box, int cuts) {
    const int dim = box.size.dims() == 0 ? 0 : static_cast<int>(below(box.size.dims()));
    if (cuts > 0 && box.size.dims() > 0 && box.size[dim] > 1) {
      Box left = box, right = box;
      left.size[dim] = 1 + below(box.size[dim] - 1);
      right.begin[dim] += left.size[dim];
      right.size[dim] -= left.size[dim];
      add_pieces(tensor, left, cuts - 1);
      return add_pieces(tensor, right, cuts - 1);
    }
    const Index index = below(static_cast<Index>(files_.size()));
    std::vector<std::byte>& file = files_[static_cast<std::size_t>(index)];
    const auto gap = random_bytes(below(5000), random_);
    file.insert(file.end(), gap.begin(), gap.end());
    tensor.pieces.push_back({static_cast<int>(index), static_cast<Index>(file.size()), box});
    const auto bytes =
        cut(arrays_[arrays_.size() - 1], tensor.global, box, size_bytes(tensor.dtype));
    file.insert(file.end(), bytes.begin(), bytes.end());
  }

  void add_file(const std::string& directory, int index) {
    const std::vector<std::byte>& content = files_[static_cast<std::size_t>(index)];
    const auto bytes = static_cast<Index>(content.size());
    Manifest::File file{"file-" + std::to_string(index), bytes, {}};
    for (Index at = 0; at < bytes; at += block_bytes)
      file.blocks.push_back(checksum(content.data() + at, std::min(block_bytes, bytes - at)));
    write_bytes(directory + "/" + file.name, content);
    manifest.files.push_back(file);
  }

  std::mt19937_64 random_;
  std::vector<std::vector<std::byte>> arrays_, files_;
};

}  // namespace trireme
