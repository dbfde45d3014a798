// Directory: the tensors of a model in safetensors files, which are model.safetensors, or the files
// that model.safetensors.index.json names. Only headers are read.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/key_values.h"
#include "trireme/core/shape.h"

#include "runtime/store/checksum.h"

namespace trireme::safetensors {

// The header of a safetensors file (https://github.com/huggingface/safetensors, "Format"): 8 bytes
// N, little endian; N bytes of JSON {"name": {"dtype", "shape", "data_offsets"}, ...}; the data.
// Whatever a file says is checked before anything depends on it.

inline constexpr Index most_header_bytes = 100'000'000;
inline constexpr Index length_bytes = 8;  // size of N

struct StoredTensor {
  std::string name;
  std::string type;          // as the file says: "BF16"
  Shape shape;               // row-major, packed
  Index begin = 0, end = 0;  // bytes of the data
};

struct Header {
  std::vector<StoredTensor> tensors;  // in the order of their data, which they fill without gaps
  KeyValues metadata;                 // from "__metadata__"
};

/// Checks the name of a tensor, as it stands in messages. Throws: Error when it is empty, long, or
/// has control characters.
void check_name(const std::string& name);

/// Reads the JSON before `data_bytes` of data. Takes bounded memory for any text. Throws: Error
/// that names the tensor.
Header parse_header(std::string_view json, Index data_bytes);

/// `Header`, and where its data begins.
struct FileHeader {
  Header header;
  Index data_begin = 0;
  Checksum sum;  // checksum of the JSON
};
/// Throws: Error that begins with `path`.
FileHeader read_header(const std::string& path);

/// The first bytes of a file of these tensors, which lie in `header` in order, up to its data; a
/// multiple of 8 bytes.
std::string header_text(const Header& header);

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
  KeyValues metadata;                  // from the first file
  Checksum headers;                    // checksum of the headers of all files
  Index header_bytes = 0;              // size of the headers of all files

  const LocatedTensor* find(const std::string& name) const;  // null: none
  std::string file_path(const LocatedTensor& tensor) const {
    return path + '/' + files[static_cast<std::size_t>(tensor.file)];
  }
  Index bytes() const;  // sum over all tensors
};

/// Throws: Error that names the file, when one is missing or not whole, when the index does not
/// name a tensor of the files or has it in another one, or when the directory has no such files.
Directory open_directory(const std::string& path);

}  // namespace trireme::safetensors
