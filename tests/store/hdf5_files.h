// Files composed from a layout as the store composes them, and what HDF5 and h5py find in them.
#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/random.h"

#include "runtime/store/file_layout.h"
#include "runtime/store/hdf5/dataset.h"
#include "tests/support/scratch_directory.h"

namespace trireme {

/// Values of a tensor, or of a piece of it, packed.
using Values = std::string;

/// Bytes that differ from tensor to tensor; floats are finite.
inline Values values_of(const std::string& tensor, DType dtype, const Shape& shape) {
  const Random random = random_for(7, tensor);
  Values values(static_cast<std::size_t>(shape.count() * size_bytes(dtype)), '\0');
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<char>(random.bits(static_cast<Index>(i)));
  const auto width = static_cast<std::size_t>(size_bytes(dtype));
  if (is_floating(dtype))  // the exponent is 0x3f or 0xbf, and some bits
    for (std::size_t top = width - 1; top < values.size(); top += width)
      values[top] = static_cast<char>((values[top] & 0x80) | 0x3f);
  return values;
}

/// Where element `i` of packed `box` lies in its packed tensor.
inline std::size_t element_of(const Shape& global, const Box& box, Index i) {
  Index at = 0, stride = 1;
  for (int d = global.dims() - 1; d >= 0; --d) {
    at += (box.begin[d] + i % box.size[d]) * stride;
    i /= box.size[d];
    stride *= global[d];
  }
  return static_cast<std::size_t>(at);
}

/// The part of packed `values` of shape `global` that lies in `box`, packed.
inline Values cut(const Values& values, const Shape& global, const Box& box, DType dtype) {
  const auto width = static_cast<std::size_t>(size_bytes(dtype));
  Values part;
  for (Index i = 0; i < box.count(); ++i)
    part += values.substr(element_of(global, box, i) * width, width);
  return part;
}

inline Values values_of(const Piece& piece) {
  return cut(values_of(piece.tensor, piece.dtype, piece.global), piece.global, piece.box,
             piece.dtype);
}

/// Structure, zeros, and `values` of the pieces where they belong (none: left zero).
inline std::string compose(const FileLayout& layout, const std::vector<Values>& values) {
  std::string image(static_cast<std::size_t>(layout.bytes), '\0');
  for (const FileLayout::Run& run : layout.structure)
    std::memcpy(image.data() + run.offset, run.bytes.data(), run.bytes.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(image.data() + layout.pieces[i].offset, values[i].data(), values[i].size());
  return image;
}

/// A whole shard with the values of its pieces.
inline std::string compose_shard(const std::vector<Piece>& pieces) {
  std::vector<Values> values;
  for (const Piece& piece : pieces) values.push_back(values_of(piece));
  return compose(lay_out_shard(pieces), values);
}

enum class Access { read, write };

/// Moves the bytes of a dataset as they are, in its own type, with HDF5: from the file to `values`,
/// or back.
inline void transfer(const std::string& file, const std::string& dataset, DType dtype,
                     Access access, Values& values) {
  using hdf5::check;
  using hdf5::Handle;
  const hdf5::QuietErrors quiet;
  const Handle properties = hdf5::make_file_access();
  const unsigned mode = access == Access::read ? H5F_ACC_RDONLY : H5F_ACC_RDWR;
  const Handle opened(check(H5Fopen(file.c_str(), mode, properties.id()), "H5Fopen", file),
                      H5Fclose);
  const Handle set(check(H5Dopen2(opened.id(), dataset.c_str(), H5P_DEFAULT), "H5Dopen2", dataset),
                   H5Dclose);
  const Handle type = hdf5::make_type(dtype);
  check(access == Access::read
            ? H5Dread(set.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data())
            : H5Dwrite(set.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
        "transfer", dataset);
}

inline Values read_with_hdf5(const std::string& file, const std::string& dataset, DType dtype,
                             const Shape& shape) {
  Values values(static_cast<std::size_t>(shape.count() * size_bytes(dtype)), '\x55');
  transfer(file, dataset, dtype, Access::read, values);
  return values;
}

/// What a command prints on both outputs; its failure is printed too.
inline std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return "popen failed";
  std::string output;
  std::array<char, 4096> chunk;
  for (std::size_t n; (n = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    output.append(chunk.data(), n);
  if (const int status = pclose(pipe); status != 0) output += fmt::format("status {}", status);
  return output;
}

/// A python with h5py; "" when this machine has none.
inline std::string find_python() {
  for (const char* python : {"/usr/bin/python3", "python3"})
    if (output_of(fmt::format("{} -c 'import h5py'", python)).empty()) return python;
  return "";
}

inline std::string spaced(const Shape& shape) {
  std::string text;
  for (const Index extent : shape) text += std::to_string(extent) + ' ';
  return text;
}

/// A dataset that h5py is to find.
struct Expected {
  std::string path;
  DType dtype;
  Shape shape;
  Values values;
  std::string begin = "",
              global = "";  // attributes, "1 2"; looked at when `global` or `begin` is given
};

/// Reads `file` with h5py; returns one line for each dataset that is not as expected, and for each
/// that is unknown.
inline std::string h5py_problems(const std::string& python, const std::string& file,
                                 const std::vector<Expected>& datasets) {
  static constexpr const char* script = R"(
import sys, os, h5py, numpy as np
folder, file = sys.argv[1:]
known = set()
with h5py.File(file, 'r') as opened:
    for i, line in enumerate(open(folder + '/list')):
        path, dtype, shape, begin, world = line.rstrip('\n').split('|')
        known.add(path)
        shape = tuple(map(int, shape.split()))
        raw = open(f'{folder}/{i}', 'rb').read()
        plain = {'f32': '<f4', 'f64': '<f8', 'i32': '<i4', 'i64': '<i8', 'u8': '|u1',
                 'bf16': '<u2'}[dtype]
        wanted = np.frombuffer(raw, plain).reshape(shape)
        if dtype == 'bf16':  # the upper half of a float
            wanted = (wanted.astype('<u4') << 16).view('<f4')
        found = opened[path]
        if found.shape != shape:
            print(f'{path}: shape {found.shape}')
        elif dtype != 'bf16' and found.dtype != wanted.dtype:
            print(f'{path}: type {found.dtype}')
        elif not np.array_equal(found[()].astype(wanted.dtype), wanted):
            print(f'{path}: values')
        if 'begin' in found.attrs:
            for name, text in (('begin', begin), ('global', world)):
                if list(found.attrs[name]) != list(map(int, text.split())):
                    print(f'{path}: {name} {found.attrs[name]}')
        elif begin or world:
            print(f'{path}: no attributes')
    opened.visititems(lambda path, found: print(f'{path}: unknown')
                      if isinstance(found, h5py.Dataset) and path not in known else None)
)";
  const ScratchDirectory folder;
  folder.write("read.py", script);
  std::string list;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const Expected& e = datasets[i];
    folder.write(std::to_string(i), e.values);
    list +=
        fmt::format("{}|{}|{}|{}|{}\n", e.path, name(e.dtype), spaced(e.shape), e.begin, e.global);
  }
  folder.write("list", list);
  return output_of(fmt::format("{} {} {} '{}'", python, folder / "read.py", folder / "", file));
}

}  // namespace trireme
