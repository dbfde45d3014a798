// Checkpoints of a small state, written in this process as ranks of any layout would write them.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/steps.h"
#include "runtime/store/write/snapshot.h"

namespace trireme::test {

struct ToyTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape global;
  std::vector<std::byte> bytes;

  template <class T>
  T& at(Index i) {
    return reinterpret_cast<T*>(bytes.data())[i];
  }
};

template <class T>
ToyTensor toy_tensor(const std::string& name, const Shape& global, T first, T increment) {
  ToyTensor tensor{name, DTypeOf<T>::value, global, {}};
  tensor.bytes.resize(static_cast<std::size_t>(global.count()) * sizeof(T));
  for (Index i = 0; i < global.count(); ++i)
    tensor.at<T>(i) = static_cast<T>(first + static_cast<T>(i) * increment);
  return tensor;
}

/// Ordered by name, as a manifest is.
struct ToyState {
  std::vector<ToyTensor> tensors = {
      toy_tensor<float>("optimizer/first_moment/wte", {37, 6}, 0.5F, 0.25F),
      toy_tensor<float>("parameters/h.0.bias", {7}, -1.0F, 0.125F),
      toy_tensor<float>("parameters/wte", {37, 6}, 1.0F, 0.5F),
      toy_tensor<std::int64_t>("state/step", {}, 120, 0),
  };
  ToyTensor& operator[](const std::string& name) {
    for (ToyTensor& tensor : tensors)
      if (tensor.name == name) return tensor;
    throw Error("no tensor " + name);
  }
};

/// How a tensor is cut: along its first dim or its last one, into a part for each rank (rank 0 has
/// all that is too small).
struct ToyLayout {
  enum class Cut { rows, columns };
  Cut cut = Cut::rows;
  int ranks = 1;
};

inline Box whole_box(const Shape& global) {
  Box box{global, global};
  for (int d = 0; d < global.dims(); ++d) box.begin[d] = 0;
  return box;
}

/// What `rank` holds of a tensor; an empty box when nothing.
inline Box part_of(const Shape& global, const ToyLayout& layout, int rank) {
  Box box = whole_box(global);
  const int dim = layout.cut == ToyLayout::Cut::rows ? 0 : global.dims() - 1;
  if (global.dims() > 0 && global[dim] >= layout.ranks) {
    box.begin[dim] = global[dim] * rank / layout.ranks;
    box.size[dim] = global[dim] * (rank + 1) / layout.ranks - box.begin[dim];
  } else if (rank > 0) {
    box.size = Shape{0};
  }
  return box;
}

inline std::vector<std::byte> packed(const ToyTensor& tensor, const Box& box) {
  const Index size = size_bytes(tensor.dtype);
  const Shape strides = tensor.global.packed_strides();
  std::vector<std::byte> out;
  for (Index i = 0; i < box.count(); ++i) {
    Index at = 0, rest = i;
    for (int d = box.size.dims() - 1; d >= 0; --d) {
      at += (box.begin[d] + rest % box.size[d]) * strides[d];
      rest /= box.size[d];
    }
    const std::byte* element = tensor.bytes.data() + at * size;
    out.insert(out.end(), element, element + size);
  }
  return out;
}

/// Writes one file of a step as a rank does, and enters it into the manifest.
inline void write_toy_file(const std::string& directory, const std::string& name, FileLayout layout,
                           Manifest& manifest) {
  const Index bytes = layout.bytes;
  Snapshot snapshot(std::move(layout), 0);
  ThreadPool pool(1);
  Worker worker;
  snapshot.save(directory + "/" + name, pool, worker);
  worker.wait();
  require(snapshot.report().error.empty(), snapshot.report().error);
  manifest.files.push_back({name, bytes, snapshot.report().blocks});
}

/// Writes all files of a step that is not committed yet; returns its manifest.
inline Manifest write_toy(const std::string& root, Index step, const ToyState& state,
                          const ToyLayout& layout) {
  Manifest manifest;
  manifest.step = step;
  manifest.run = "toy";
  manifest.created = "2026-11-21T04:12:28Z";
  manifest.layout = str(layout.ranks, " ranks");
  manifest.identity = {{"model", "toy"}};
  manifest.options = {{"--lr", "0.1"}, {"--tp", std::to_string(layout.ranks)}};
  manifest.versions = {{"trireme", "0.1.0"}};
  manifest.positions = {{"corpus", "960"}};
  for (const ToyTensor& tensor : state.tensors)
    manifest.tensors.push_back({tensor.name, tensor.dtype, tensor.global, {}});
  make_directory(root);
  const std::string directory = unfinished_path(root, step, manifest.run);
  make_directory(directory);

  std::vector<GlobalTensor> globals;
  for (const ToyTensor& tensor : state.tensors)
    globals.push_back({tensor.name, tensor.dtype, tensor.global, {}});
  for (int rank = 0; rank < layout.ranks; ++rank) {
    std::vector<Piece> pieces;
    std::vector<std::size_t> of;  // tensor of each piece
    std::vector<std::vector<std::byte>> contents;
    contents.reserve(state.tensors.size());
    for (std::size_t t = 0; t < state.tensors.size(); ++t) {
      const ToyTensor& tensor = state.tensors[t];
      const Box box = part_of(tensor.global, layout, rank);
      if (box.count() == 0) continue;
      contents.push_back(packed(tensor, box));
      pieces.push_back({tensor.name, tensor.dtype, tensor.global, box, contents.back().data()});
      of.push_back(t);
      globals[t].parts.push_back({shard_name(rank), box});
    }
    const FileLayout file = lay_out_shard(std::move(pieces));
    for (std::size_t p = 0; p < of.size(); ++p)
      manifest.tensors[of[p]].pieces.push_back({rank, file.pieces[p].offset, file.pieces[p].box});
    write_toy_file(directory, shard_name(rank), file, manifest);
  }
  write_toy_file(directory, global_name, lay_out_global(globals), manifest);
  return manifest;
}

/// Returns the directory of the committed step.
inline std::string commit_toy(const std::string& root, Index step, const ToyState& state,
                              const ToyLayout& layout = {}) {
  commit_step(root, write_toy(root, step, state, layout));
  return root + "/" + step_name(step);
}

/// Flips a bit of a file.
inline void flip_bit(const std::string& path, Index byte) {
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  require(file != nullptr, path, " cannot be opened");
  std::fseek(file, byte, SEEK_SET);
  const int value = std::fgetc(file);
  std::fseek(file, byte, SEEK_SET);
  std::fputc(value ^ 1, file);
  require(std::fclose(file) == 0 && value >= 0, path, " cannot be changed at ", byte);
}

}  // namespace trireme::test
