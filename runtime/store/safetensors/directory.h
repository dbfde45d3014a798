// Directory: the tensors of a model in safetensors files, which are model.safetensors, or the files
// that model.safetensors.index.json names. Only headers are read.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "runtime/store/safetensors/header.h"

namespace trireme::safetensors {

inline constexpr const char* single_file_name = "model.safetensors";
inline constexpr const char* index_name = "model.safetensors.index.json";

struct LocatedTensor {
  std::string name;
  std::string type;  // as in StoredTensor
  Shape shape;
  int file = 0;      // in Directory::files
  Index offset = 0;  // in that file
  Index bytes = 0;
};

struct Directory {
  std::string path;
  std::vector<std::string> files;      // names
  std::vector<LocatedTensor> tensors;  // by name
  std::vector<std::string> absent;     // tensors that the index names and no file has, sorted
  KeyValues metadata;                  // of the first file
  Checksum headers;                    // of the headers of all files
  Index header_bytes = 0;              // of all files

  const LocatedTensor* find(const std::string& name) const;  // null: none
  std::string file_path(const LocatedTensor& tensor) const {
    return path + '/' + files[static_cast<std::size_t>(tensor.file)];
  }
  Index bytes() const;  // of all tensors
};

/// Throws: Error that names the file, when one is missing or not whole, when the index does not
/// name a tensor of the files or has it in another one, or when the directory has no such files.
Directory open_directory(const std::string& path);

}  // namespace trireme::safetensors
